package memory

import (
	"encoding/binary"
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

// ballast are four MiB of the program's file that nothing else touches.
const (
	line16  = "the file has it\n"
	line256 = line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16 + line16
	line4K  = line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256 + line256
	line64K = line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K + line4K
	line1M  = line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K + line64K
)

var ballast = line1M + line1M + line1M + line1M

// The program's own pages go, and come back when they are touched, as the file has them.
func TestUnmapOwnPages(t *testing.T) {
	const around = 128 << 10 // what the kernel maps with what is touched before and behind
	for range 3 {
		if strings.Count(ballast, line16) != len(ballast)/len(line16) {
			t.Fatal("the file has something else")
		}
		if got := mapped(t, ballast); got < len(ballast)-around {
			t.Fatalf("%d of %d bytes are mapped that were just read", got, len(ballast))
		}
		unmapOwnPages()
		if got := mapped(t, ballast); got > around {
			t.Errorf("%d of %d bytes are still mapped", got, len(ballast))
		}
	}
}

// mapped is how many bytes of s, counted in whole pages, this process has mapped
// (proc_pid_pagemap(5)).
func mapped(t *testing.T, s string) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*(len(s)/page))
	if _, err := f.ReadAt(entries, int64(uintptr(unsafe.Pointer(unsafe.StringData(s))))/int64(page)*8); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(entries); i += 8 {
		if binary.LittleEndian.Uint64(entries[i:])>>63 == 1 {
			n += page
		}
	}
	return n
}

// word stands among what is never written.
var word = "as the file has it"

// A page that is not the file's any more, as a debugger's breakpoint makes it, stays.
func TestUnmapOwnPagesLeavesChangedOnes(t *testing.T) {
	first := unsafe.StringData(word)
	page := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(first), -int(uintptr(unsafe.Pointer(first))%uintptr(os.Getpagesize())))), os.Getpagesize())
	if err := syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_WRITE); err != nil {
		t.Fatal(err)
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
