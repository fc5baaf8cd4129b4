package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

func TestParseMapping(t *testing.T) {
	for line, want := range map[string]mapping{
		"00400000-01456000 r-xp 00000000 fe:00 10142087                           /opt/a b/handrail": {0x400000, 0x1456000, "r-xp", "/opt/a b/handrail"},
		"1e5b5fc00000-1e5b64c00000 rw-p 00000000 00:00 0 ":                                           {0x1e5b5fc00000, 0x1e5b64c00000, "rw-p", ""},
		"7fff0ac77000-7fff0ac98000 rw-p 00000000 00:00 0                          [stack]":           {0x7fff0ac77000, 0x7fff0ac98000, "rw-p", ""},
		"Rss:               13648 kB":                                                                {},
		"Anonymous:             0 kB":                                                                {},
		"VmFlags: rd ex mr mw me de sd ":                                                             {},
		"":                                                                                           {},
	} {
		if got, ok := parseMapping(line); got != want || ok != (want != mapping{}) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}

// The program's own pages go, and come back when they are touched.
func TestUnmapOwnPages(t *testing.T) {
	eachOwnMapping(t, func(m mapping, _ int) {
		const populateRead = 22 // MADV_POPULATE_READ
		if _, _, err := syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, populateRead); err != 0 {
			t.Skip("no means to touch all of the program:", err)
		}
	})
	before := ownPages(t)
	unmapOwnPages()
	after := ownPages(t) // with those that the test itself needs
	if after >= before { // how much comes back, and with which neighbours, is the kernel's matter
		t.Errorf("%d kB of the program are mapped, %d before", after, before)
	}
	t.Logf("%d kB of the program were mapped, %d are", before, after)
}

// word stands among what is never written.
var word = "as the file has it"

// A page that is not the file's any more, as a debugger's breakpoint makes it, stays.
func TestUnmapOwnPagesLeavesChangedOnes(t *testing.T) {
	first := unsafe.StringData(word)
	page := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(first), -int(uintptr(unsafe.Pointer(first))%uintptr(os.Getpagesize())))), os.Getpagesize())
	if err := syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Skip(err)
	}
	*first = 'A'
	if err := syscall.Mprotect(page, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	unmapOwnPages()
	if word[0] != 'A' {
		t.Errorf("the page is the file's again: %q", word)
	}
}

// ownPages is how many kB of the program's file are mapped and can not be written.
func ownPages(t *testing.T) (kb int) {
	t.Helper()
	eachOwnMapping(t, func(_ mapping, resident int) { kb += resident })
	return kb
}

// eachOwnMapping gives the mappings of the program's file that can not be written, with
// how many kB of them are in memory.
func eachOwnMapping(t *testing.T, do func(m mapping, resident int)) {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var m mapping
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if next, ok := parseMapping(lines.Text()); ok {
			m = next
		} else if rss, ok := strings.CutPrefix(lines.Text(), "Rss:"); ok && m.path == program && strings.HasPrefix(m.mode, "r-") {
			var kb int
			if _, err := fmt.Sscan(rss, &kb); err != nil {
				t.Fatal(err)
			}
			do(m, kb)
		}
	}
}
