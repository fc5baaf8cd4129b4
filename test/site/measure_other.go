//go:build !linux

package site

import "time"

// ProcessorTime is 0: the system does not tell.
func ProcessorTime() time.Duration { return 0 }
