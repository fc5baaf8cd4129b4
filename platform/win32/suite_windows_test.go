package win32_test

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/platformtest"
)

// oracle is the program, asked by messages.
type oracle struct {
	t     *testing.T
	title string
	top   uintptr
	clip  string
}

func startProgram(t *testing.T) oracle {
	t.Helper()
	// Not in t.TempDir: Wine 8 lacks the call by which that is removed.
	o := oracle{t: t, title: fmt.Sprintf("platform test %d", os.Getpid()), clip: filepath.Join(os.TempDir(), fmt.Sprintf("clip-%d.txt", os.Getpid()))}
	t.Cleanup(func() { _ = os.Remove(o.clip) })
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programEnv+"="+o.title, programEnv+"_CLIP="+o.clip)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		title, err := windows.UTF16PtrFromString(o.title)
		if err != nil {
			t.Fatal(err)
		}
		if o.top, _, _ = user.NewProc("FindWindowW").Call(0, uintptr(unsafe.Pointer(title))); o.top != 0 && o.child(buttonID) != 0 {
			return o
		}
		if time.Now().After(end) {
			t.Fatal("the program shows no window")
		}
	}
}

func (o oracle) child(id uintptr) uintptr {
	h, _, _ := user.NewProc("GetDlgItem").Call(o.top, id)
	return h
}

func (o oracle) ask(message uintptr) uintptr {
	r, _, _ := user.NewProc("SendMessageW").Call(o.top, message, 0, 0)
	return r
}

func (o oracle) Title() string { return o.title }

func (o oracle) Place(widget string) platform.Rect {
	id := map[string]uintptr{"entry": entryID, "button": buttonID}[widget]
	var r struct{ left, top, right, bottom int32 }
	if ok, _, err := user.NewProc("GetWindowRect").Call(o.child(id), uintptr(unsafe.Pointer(&r))); ok == 0 {
		o.t.Fatalf("%s: %v", widget, err)
	}
	return platform.Rect{X: int(r.left), Y: int(r.top), Width: int(r.right - r.left), Height: int(r.bottom - r.top)}
}

func (o oracle) FocusEntry() {
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		o.ask(askFocus)
		if front, _, _ := user.NewProc("GetForegroundWindow").Call(); front == o.top {
			return
		}
		if time.Now().After(end) {
			o.t.Fatal("the program does not come to the front")
		}
	}
}

func (o oracle) Entry() string {
	var text [1024]uint16
	user.NewProc("SendMessageW").Call(o.child(entryID), wmGetText, uintptr(len(text)), uintptr(unsafe.Pointer(&text)))
	return windows.UTF16ToString(text[:])
}

func (o oracle) Clicks() int { return int(o.ask(askClicks)) }

func (o oracle) Clipboard() (string, bool) {
	if o.ask(askPasted) == 0 {
		return "", false
	}
	text, err := os.ReadFile(o.clip)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text), true
}

func (o oracle) Copy(text string) {
	if err := os.WriteFile(o.clip, []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); o.ask(askCopy) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatal("the program could not copy")
		}
	}
}

// Windows faces the suite of all desktops. A part that the system lacks is skipped with its own
// word for it: Wine has no UI Automation that is whole.
func TestDesktop(t *testing.T) {
	o := desktop.New(desktop.Options{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = o.Close() })
	platformtest.Test(t, o, startProgram(t))
}
