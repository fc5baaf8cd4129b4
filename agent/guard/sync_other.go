//go:build !linux

package guard

import "os"

// syncData makes what was written inside f durable.
func syncData(f *os.File) error { return f.Sync() }
