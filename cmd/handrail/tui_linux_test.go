package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// terminal is a real pseudo-terminal with an emulator on its other side, which shows what a
// person would see.
type aTerminal struct {
	t             *testing.T
	master, slave *os.File
	screen        *vt.SafeEmulator

	mu   sync.Mutex // guards said
	said []byte
	more chan struct{} // one token: something was said
}

func openTerminal(t *testing.T) *aTerminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &aTerminal{t: t, master: master, slave: slave, screen: vt.NewSafeEmulator(100, 30), more: make(chan struct{}, 1)}
	x.resize(100, 30)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			_, _ = x.screen.Write(buf[:n])
			x.mu.Lock()
			x.said = append(x.said, buf[:n]...)
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
		}
	}()
	answered := make(chan struct{})
	go func() { // what programs ask terminals
		defer close(answered)
		_, _ = io.Copy(master, x.screen)
	}()
	t.Cleanup(func() { slave.Close(); master.Close(); <-done; x.screen.Close(); <-answered })
	return x
}

func (x *aTerminal) resize(width, height int) {
	x.t.Helper()
	x.screen.Resize(width, height)
	if err := unix.IoctlSetWinsize(int(x.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		x.t.Fatal(err)
	}
}

// frame is what is on the screen, as a person reads it.
func (x *aTerminal) frame() string {
	lines := strings.Split(ansi.Strip(x.screen.Render()), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \r")
	}
	return strings.Join(lines, "\n")
}

// await waits until a frame has the text.
func (x *aTerminal) await(text string) string {
	x.t.Helper()
	limit := time.After(time.Minute)
	for {
		if f := x.frame(); strings.Contains(f, text) {
			return f
		}
		select {
		case <-x.more:
		case <-limit:
			x.t.Fatalf("the terminal never shows %q; it shows\n%s", text, x.frame())
		}
	}
}

func (x *aTerminal) press(keys string) {
	x.t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// A person at a real terminal sees a question come, looks at it, answers, stops
// everything and lets it go on; what the calls came to is the judge.
func TestTUI(t *testing.T) {
	s := site.Start(t, site.Options{
		ApprovalWait: 2 * time.Minute,
		// A tool that is no hand on the device: what holds hands takes answers from elsewhere only.
		Rules: `@id("ask") permit (principal, action in Action::"family:fixture", resource) when { context.consent };`,
	})
	s.AddNode("desk", site.NewHandler())
	agent, err := client.New(s.URL(), client.NewToken(s.MustToken("bot", principal.RoleAgent)))
	if err != nil {
		t.Fatal(err)
	}
	call := func(text string) <-chan capabilities.Result {
		result := make(chan capabilities.Result, 1)
		go func() {
			r, err := agent.Call(context.Background(), client.Call{Tool: site.ToolEcho, Args: map[string]any{"text": text}})
			if err != nil {
				r.Message = err.Error()
			}
			result <- r
		}()
		return result
	}
	x := openTerminal(t)
	before, err := term.GetState(int(x.slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = []string{"handrail", "tui"} // by this name the test binary is the program
	cmd.Env = append(os.Environ(), "HANDRAIL_URL="+s.URL(), "HANDRAIL_TOKEN="+s.MustToken("op", principal.RoleOperator), "NO_COLOR=1", "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = x.slave, x.slave, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that it hears of another size
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	x.await("RUNNING")
	x.await("no approvals pending")

	first := call("first\x1b[2J") // what an agent writes never drives the terminal
	f := x.await("1 waiting for you")
	if !strings.Contains(f, " risk  bot types 9 characters on desk") {
		t.Errorf("the question is shown as\n%s", f)
	}
	x.press("a")
	x.await("look at it first")
	x.press("\r")
	if f := x.await(" RISK\nbot wants"); !strings.Contains(f, "because: ask") || !strings.Contains(f, "before, in this lane:") {
		t.Errorf("the whole question is\n%s", f)
	}
	x.press("aa") // the second is for nobody
	if r := <-first; r.Status != capabilities.StatusOK {
		t.Errorf("what was allowed: %+v", r)
	}
	x.await("no approvals pending")
	x.press("\t")
	x.await("CALLS (keys are here)\n> ok ") // the list may be drawn before the call is in it
	x.press("\r")
	x.await("handrail ledger show --call")
	x.press("\x1b[A\t")
	second := call("second")
	x.await("1 waiting for you")
	x.press("d")
	if r := <-second; r.Code != capabilities.CodeConsentDenied {
		t.Errorf("what was denied: %+v", r)
	}
	x.press("sn")
	x.press("s")
	x.await("STOP EVERYTHING?")
	x.press("y")
	x.await("STOPPED by op")
	if r := <-call("third"); r.Code != capabilities.CodeStopped {
		t.Errorf("while stopped: %+v", r)
	}
	x.press("ry")
	x.await("handrail  RUNNING")

	// A small terminal gets small lines, and the first and the last are on it.
	x.resize(40, 10)
	small := func(f string) bool {
		lines := strings.Split(f, "\n")
		return len(lines) == 10 && lines[0] == "handrail  RUNNING" && lines[9] != ""
	}
	for limit := time.Now().Add(time.Minute); !small(x.frame()); {
		if time.Now().After(limit) {
			t.Fatalf("after the terminal shrank:\n%s", x.frame())
		}
		select { // it is drawn anew every second
		case <-x.more:
		case <-time.After(time.Second):
		}
	}
	x.press("q")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if after, err := term.GetState(int(x.slave.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is left changed (%v)", err)
	}
	for limit := time.After(time.Minute); x.screen.IsAltScreen() || x.screen.CursorHidden(); {
		select {
		case <-x.more:
		case <-limit:
			t.Fatalf("screen and cursor are not given back:\n%s", x.frame())
		}
	}
}
