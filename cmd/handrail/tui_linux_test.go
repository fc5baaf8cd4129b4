package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
	api "github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// terminal is a real pseudo-terminal with the last frame that was drawn on it.
type terminal struct {
	t             *testing.T
	master, slave *os.File

	mu   sync.Mutex // guards said
	said []byte
	more chan struct{} // one token: something was said
}

func openTerminal(t *testing.T) *terminal {
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
	x := &terminal{t: t, master: master, slave: slave, more: make(chan struct{}, 1)}
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
			x.mu.Lock()
			x.said = append(x.said, buf[:n]...)
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { slave.Close(); master.Close(); <-done })
	return x
}

func (x *terminal) resize(width, height int) {
	x.t.Helper()
	if err := unix.IoctlSetWinsize(int(x.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		x.t.Fatal(err)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

// frame is the last whole frame, as a person reads it.
func (x *terminal) frame() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := bytes.LastIndex(x.said, []byte("\x1b[J"))
	if end < 0 {
		return ""
	}
	start := bytes.LastIndex(x.said[:end], []byte("\x1b[H"))
	return strings.ReplaceAll(escapes.ReplaceAllString(string(x.said[start+3:end]), ""), "\r", "")
}

// await waits until a frame has the text.
func (x *terminal) await(text string) string {
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

func (x *terminal) press(keys string) {
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
	agent, err := api.New(s.URL(), api.NewToken(s.MustToken("bot", principal.RoleAgent)))
	if err != nil {
		t.Fatal(err)
	}
	call := func(text string) <-chan capabilities.Result {
		result := make(chan capabilities.Result, 1)
		go func() {
			r, err := agent.Call(context.Background(), api.Call{Tool: site.ToolEcho, Args: map[string]any{"text": text}})
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

	// A small terminal gets small lines, and every one of them is on it.
	x.resize(40, 10)
	limit := time.Now().Add(time.Minute)
	for {
		lines := strings.Split(x.frame(), "\n")
		widest := 0
		for _, l := range lines {
			widest = max(widest, len([]rune(l)))
		}
		if len(lines) == 10 && widest <= 40 {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("after the terminal shrank:\n%s", x.frame())
		}
		select { // it is drawn anew every second
		case <-x.more:
		case <-time.After(time.Minute):
		}
	}
	x.press("q")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if after, err := term.GetState(int(x.slave.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is left changed (%v)", err)
	}
	ends := []byte("\x1b[?25h\x1b[?1049l")
	for limit := time.After(time.Minute); ; {
		x.mu.Lock()
		said := bytes.Clone(x.said)
		x.mu.Unlock()
		if bytes.HasSuffix(said, ends) {
			return // cursor and screen are given back
		}
		select {
		case <-x.more:
		case <-limit:
			t.Fatalf("it ends with %q", said[max(0, len(said)-40):])
		}
	}
}
