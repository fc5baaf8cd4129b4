//go:build !race

package script

import "os"

// Unwatched is for TestMain of packages that run scripts, after Main: under the
// race detector their guests are a program of their own that it does not watch.
// Call end with the exit code, last.
func Unwatched() (end func(code int)) { return os.Exit }
