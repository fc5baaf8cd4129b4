package boot

import "golang.org/x/sys/unix"

// id is the kernel's own. The time of the start, kern.boottime, moves with the clock.
func id() string {
	text, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return text
}
