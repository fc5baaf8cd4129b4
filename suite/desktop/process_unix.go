//go:build unix

package desktop

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// canFreeze: a program can be stopped and let run on.
const canFreeze = true

func freeze(pid int) error { return syscall.Kill(pid, syscall.SIGSTOP) }

func thaw(pid int) error { return syscall.Kill(pid, syscall.SIGCONT) }

// beginning tells when a process began; "" if it does not run or only waits to be
// noted as ended.
func beginning(pid int) string {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if syscall.Kill(pid, 0) == nil {
			return "unknown"
		}
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}
