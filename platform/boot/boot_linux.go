package boot

import (
	"os"
	"strings"
)

// id is the kernel's own (proc(5)); a container sees that of its host, whose memory it uses.
func id() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
