//go:build linux

package wayland

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/platform"
)

// Each program treats a character in its own way, and one is known to drop some without a word:
// Chromium, and whatever is built on it, takes what a key of a Wayland keyboard makes as one unit
// of UTF-16, and so nothing beyond U+FFFF.

// TellFocus has input ask pid for the process whose window has the keyboard, before
// text that not every program takes; 0 is for nobody knows.
func (in *Input) TellFocus(pid func(ctx context.Context) int) { in.focused = pid }

// FocusedPID returns the process whose window has the keyboard; 0 if there is none, or
// if the compositor does not tell.
func (w *Windows) FocusedPID(ctx context.Context) int {
	if w.sway == nil {
		return 0
	}
	all, err := w.sway.views(ctx)
	if err != nil {
		return 0
	}
	for _, v := range all {
		if v.Focused {
			return v.PID
		}
	}
	return 0
}

// mayTake refuses text that the program with the keyboard would drop a part of.
func (in *Input) mayTake(ctx context.Context, runes []rune) error {
	if in.focused == nil {
		return nil
	}
	for i, r := range runes {
		if r <= 0xFFFF {
			continue
		}
		if pid := in.focused(ctx); pid != 0 && isChromium("/proc", pid) {
			return fmt.Errorf("character %d of the text lies beyond U+FFFF, and Chromium takes none of those from a keyboard here: %w", i+1,
				platform.ErrUntypable)
		}
		return nil
	}
	return nil
}

// isChromium reports whether a process is Chromium's first one, or that of a program
// built on it: its children say what they are for.
func isChromium(proc string, pid int) bool {
	all, _ := os.ReadDir(proc)
	for _, one := range all {
		// "PID (name) state parent …", where the name may hold anything.
		stat, err := os.ReadFile(filepath.Join(proc, one.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(proc, one.Name(), "cmdline"))
		// Its children write their command lines anew, without the zeros between.
		for arg := range bytes.FieldsFuncSeq(line, func(r rune) bool { return r == 0 || r == ' ' }) {
			if string(arg) == "--type=zygote" || string(arg) == "--type=gpu-process" {
				return true
			}
		}
	}
	return false
}
