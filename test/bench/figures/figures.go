package figures

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Median returns the middle of list, the mean of the two middle ones if there are
// two, 0 for none.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(list))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Machine says in one line what the figures were measured on.
func Machine() string {
	var parts []string
	if data, err := os.ReadFile("/etc/os-release"); err == nil {
		for line := range strings.Lines(string(data)) {
			if name, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
				parts = append(parts, strings.Trim(strings.TrimSpace(name), `"`))
			}
		}
	}
	if data, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, "Linux "+strings.TrimSpace(string(data)))
	}
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				parts = append(parts, strings.TrimSpace(v))
				break
			}
		}
	}
	return strings.Join(parts, ", ")
}

// Load is the system's load average of the last minute, as a hint at how quiet
// the machine was; "?" where the system does not tell.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(data))[0]
}

// Resident is a process's resident memory in bytes, 0 where the system does not
// tell (/proc).
func Resident(pid int) int64 { return status(pid, "VmRSS:") }

// Anonymous is what a process has of its own in memory: no page of a file.
func Anonymous(pid int) int64 { return status(pid, "RssAnon:") }

// PeakResident is the most it had.
func PeakResident(pid int) int64 { return status(pid, "VmHWM:") }

func status(pid int, field string) int64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// Save puts body between the lines begin and end of a document that exists.
func Save(path, begin, end string, body []byte) error {
	before, after, err := around(path, begin, end)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s%s\n\n%s\n\n%s%s", before, begin, bytes.TrimSpace(body), end, after)
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// Check says before a long measurement whether Save will find its place.
func Check(path, begin, end string) error {
	_, _, err := around(path, begin, end)
	return err
}

// around returns what stands before the line begin and after the line end.
func around(path, begin, end string) (before, after []byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	before, rest, found := bytes.Cut(text, []byte(begin+"\n"))
	_, after, ended := bytes.Cut(rest, []byte(end))
	if !found || !ended {
		return nil, nil, fmt.Errorf("%s has no lines %q and %q to put the figures between", path, begin, end)
	}
	return before, after, nil
}
