package workers

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The program's own pages are given back, and what it does afterwards is as before.
func TestPagesAreGivenBack(t *testing.T) {
	resident := func() (kib int) {
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip(err)
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "RssFile:"); ok {
				for _, c := range strings.TrimSpace(rest) {
					if c < '0' || c > '9' {
						break
					}
					kib = kib*10 + int(c-'0')
				}
			}
		}
		return kib
	}
	self, err := os.ReadFile("/proc/self/exe") // so that all of it is in the page cache
	if err != nil {
		t.Fatal(err)
	}
	before := resident()
	for range 3 {
		givePagesBack()
	}
	if after := resident(); after >= before {
		t.Errorf("%d KiB of files are resident, and were %d", after, before)
	}
	again, err := os.ReadFile("/proc/self/exe")
	if err != nil || len(again) != len(self) || unix.Getpid() != os.Getpid() {
		t.Error("the program is another", err)
	}
}
