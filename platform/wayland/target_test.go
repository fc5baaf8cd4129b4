//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
)

// A browser is known by its children, whatever they and others call themselves.
func TestIsChromium(t *testing.T) {
	proc := t.TempDir()
	for _, p := range []struct {
		pid, parent   int
		name, command string
	}{
		{10, 1, "app", "/opt/app/app\x00"},
		{11, 10, "app) S 99 (", "/opt/app/app --type=zygote --no-zygote-sandbox"}, // written anew, without zeros
		{20, 1, "editor", "editor\x00"},
		{21, 20, "sh", "sh\x00-c\x00echo --type=zygotes\x00"},
		{30, 1, "other", "other\x00"},
		{31, 30, "gpu", "other\x00--type=gpu-process\x00"},
	} {
		dir := filepath.Join(proc, fmt.Sprint(p.pid))
		if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "stat"), fmt.Appendf(nil, "%d (%s) S %d 1 1 0", p.pid, p.name, p.parent), 0o600),
			os.WriteFile(filepath.Join(dir, "cmdline"), []byte(p.command), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for pid, want := range map[int]bool{10: true, 20: false, 30: true, 11: false, 77: false} {
		if got := isChromium(proc, pid); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
}

// The program that has the keyboard is asked only for characters that some programs drop, and
// nobody's answer refuses nothing.
func TestMayTake(t *testing.T) {
	asked := 0
	in := &Input{}
	in.TellFocus(func(context.Context) int { asked++; return 0 })
	for _, text := range []string{"plain", strings.Repeat("漢", 100), ""} {
		if err := in.mayTake(t.Context(), []rune(text)); err != nil || asked != 0 {
			t.Errorf("%q: %v, asked %d times", text, err, asked)
		}
	}
	if err := in.mayTake(t.Context(), []rune("😀😀")); err != nil || asked != 1 {
		t.Errorf("nobody has the keyboard: %v, asked %d times", err, asked)
	}
	if err := (&Input{}).mayTake(t.Context(), []rune("😀")); errors.Is(err, platform.ErrUntypable) {
		t.Errorf("nobody tells: %v", err)
	}
}
