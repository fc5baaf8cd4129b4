package sandbox

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// On macOS the kernel's walls are a profile of Seatbelt, which sandbox-exec puts around itself
// before it becomes the program. The profile here is made of the class and the numbers of an order
// alone; every path of it is a parameter, so that no path is ever quoted.

// seatbeltSystem is what every program reads: the system's programs and libraries, as on Linux.
var seatbeltSystem = []string{
	"/System", "/usr", "/bin", "/sbin", "/opt", "/Library/Apple", "/Library/Frameworks", "/Library/Developer", "/private/etc",
	"/private/var/db/dyld", "/private/var/db/timezone", "/private/var/select",
}

// seatbeltDevices are the files of /dev that programs read and write.
var seatbeltDevices = []string{"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper"}

// seatbelt returns the words behind sandbox-exec that have it become an order's program. The paths
// of the order are real ones: Seatbelt compares what links lead to.
func seatbelt(o *order) []string {
	words := []string{"-p", seatbeltProfile(o), "-D", "PROGRAM=" + o.Path}
	for i, dir := range o.Read {
		words = append(words, "-D", "READ"+strconv.Itoa(i)+"="+dir)
	}
	for i, dir := range o.Write {
		words = append(words, "-D", "WRITE"+strconv.Itoa(i)+"="+dir)
	}
	return append(append(words, o.Path), o.Argv[min(1, len(o.Argv)):]...)
}

// seatbeltProfile is the profile of an order: nothing is allowed but what it names.
func seatbeltProfile(o *order) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	folders := func(name string, n int) string {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, ` (subpath (param "%s%d"))`, name, i)
		}
		return all.String()
	}
	literals := func(list []string, form string) string {
		var all strings.Builder
		for _, path := range list {
			fmt.Fprintf(&all, " (%s %q)", form, path)
		}
		return all.String()
	}
	system, devices := literals(seatbeltSystem, "subpath"), literals(seatbeltDevices, "literal")
	read, write := folders("READ", len(o.Read)), folders("WRITE", len(o.Write))
	line("(version 1)")
	line("(deny default)")
	if o.Limits.Processes > 1 {
		line("(allow process-fork)")
		line(`(allow process-exec (literal (param "PROGRAM"))%s%s%s)`, system, read, write)
		line("(allow signal (target same-sandbox))")
		line("(allow process-info* (target same-sandbox))")
	} else {
		line(`(allow process-exec (literal (param "PROGRAM")))`)
		line("(allow signal (target self))")
		line("(allow process-info* (target self))")
	}
	line("(allow sysctl-read)")
	line("(allow file-read-metadata)")
	line(`(allow file-read* (literal "/") (literal (param "PROGRAM"))%s%s%s%s)`, system, devices, read, write)
	line("(allow file-write-data%s)", devices)
	if write != "" {
		line("(allow file-write*%s)", write)
		line("(deny file-write-setugid)")
	}
	if o.Door.IsValid() {
		line("(allow network-outbound%s)", seatbeltDoor(o.Door, o.Direct))
	}
	return b.String()
}

// seatbeltDoor are the ports of this machine that lead to the proxy, and to what goes through it as
// if there were none. Seatbelt knows no other address than this machine's.
func seatbeltDoor(door netip.AddrPort, direct []netip.AddrPort) string {
	var all strings.Builder
	for _, at := range append([]netip.AddrPort{door}, direct...) {
		if at.Addr().IsLoopback() {
			fmt.Fprintf(&all, ` (remote tcp "localhost:%d")`, at.Port())
		}
	}
	return all.String()
}
