package metrics

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// ticks is what the kernel counts processor time and starts in, per second, for every
// program: USER_HZ of each architecture that we are made for.
const ticks = 100

// Fields of /proc/self/stat after the name, which is in parentheses (proc_pid_stat(5)).
const (
	fieldUser    = 11
	fieldSystem  = 12
	fieldStart   = 19
	fieldVirtual = 20
	fieldPages   = 21
)

func stat(field int) (float64, bool) {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) <= field {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(fields[field]), 64)
	return v, err == nil
}

func cpuSeconds() (float64, bool) {
	user, told := stat(fieldUser)
	system, also := stat(fieldSystem)
	return (user + system) / ticks, told && also
}

func virtual() (float64, bool) { return stat(fieldVirtual) }

func resident() (float64, bool) {
	pages, told := stat(fieldPages)
	return pages * float64(os.Getpagesize()), told
}

func openDescriptors() (float64, bool) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	return float64(len(names) - 1), err == nil // but for the one that looks
}

// began does not change while the process lives.
func began() (float64, bool) {
	at := startTime()
	return at, at > 0
}

var startTime = sync.OnceValue(func() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "\nbtime ")
	line, _, _ := strings.Cut(after, "\n")
	boot, err := strconv.ParseFloat(line, 64)
	start, told := stat(fieldStart)
	if err != nil || !told {
		return 0
	}
	return boot + start/ticks
})
