//go:build unix

package metrics

import "syscall"

func maxDescriptors() (float64, bool) {
	var l syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
	return float64(l.Cur), err == nil
}
