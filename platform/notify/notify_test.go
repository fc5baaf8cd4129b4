//go:build linux

package notify

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 30 * time.Second

// bus runs a real message bus and returns its address.
func bus(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon (apt install dbus)")
	}
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", "--address=unix:path="+filepath.Join(t.TempDir(), "bus"))
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// shown is one Notify as a server gets it.
type shown struct {
	replaces    uint32
	title, body string
	actions     []string
	urgency     byte
	expire      int32
}

// server is a notification server on a real bus.
type server struct {
	conn   *dbus.Conn
	can    []string
	next   uint32
	notify chan shown
	closed chan uint32
}

func (s *server) GetCapabilities() ([]string, *dbus.Error) { return s.can, nil }

func (s *server) Notify(_ string, replaces uint32, _, title, body string, actions []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	urgency, _ := hints["urgency"].Value().(byte)
	s.notify <- shown{replaces, title, body, actions, urgency, expire}
	if replaces != 0 {
		return replaces, nil
	}
	s.next++
	return s.next, nil
}

func (s *server) CloseNotification(id uint32) *dbus.Error {
	s.closed <- id
	return nil
}

func serve(t *testing.T, address string, can ...string) *server {
	t.Helper()
	conn, err := dbus.Connect(address)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s := &server{conn: conn, can: can, notify: make(chan shown, 16), closed: make(chan uint32, 16)}
	must(t, conn.Export(s, busPath, busName))
	_, err = conn.RequestName(busName, 0)
	must(t, err)
	return s
}

func notifierOn(t *testing.T, address string) platform.Notifier {
	t.Helper()
	n := New(Options{SessionBus: address})
	t.Cleanup(func() { must(t, n.Close()) })
	return n
}

func ctx(t *testing.T) context.Context {
	c, cancel := context.WithTimeout(context.Background(), within)
	t.Cleanup(cancel)
	return c
}

// A notice is put up, replaced, answered and withdrawn; what could be markup is text.
func TestNotices(t *testing.T) {
	address := bus(t)
	s, n := serve(t, address, "actions", "body", "body-markup"), notifierOn(t, address)
	c := ctx(t)
	lasting := platform.Notice{Title: "a uses your screen", Body: "<b>a</b> & co", Lasting: true, Actions: []platform.NoticeAction{{Key: "stop", Label: "Stop"}}}
	id, err := n.Show(c, 0, lasting)
	must(t, err)
	got := <-s.notify
	if got.title != lasting.Title || got.body != "&lt;b&gt;a&lt;/b&gt; &amp; co" || strings.Join(got.actions, " ") != "stop Stop" || got.urgency != 2 || got.expire != 0 || got.replaces != 0 {
		t.Errorf("%+v", got)
	}
	again, err := n.Show(c, id, platform.Notice{Title: "b"})
	must(t, err)
	if got := <-s.notify; again != id || got.replaces != id || got.expire != -1 || got.urgency != 1 {
		t.Errorf("%+v", got)
	}
	must(t, s.conn.Emit(busPath, busName+".ActionInvoked", id, "stop"))
	must(t, s.conn.Emit(busPath, busName+".NotificationClosed", id, uint32(2)))
	for _, want := range []platform.NoticeEvent{{ID: id, Key: "stop"}, {ID: id}} {
		select {
		case e := <-n.Events():
			if e != want {
				t.Errorf("%+v, want %+v", e, want)
			}
		case <-c.Done():
			t.Fatal("no event")
		}
	}
	must(t, n.Withdraw(c, id))
	if <-s.closed != id {
		t.Error("another was withdrawn")
	}
}

// Without buttons none are sent, and text stays text.
func TestPlainServer(t *testing.T) {
	address := bus(t)
	s, n := serve(t, address, "body"), notifierOn(t, address)
	_, err := n.Show(ctx(t), 0, platform.Notice{Title: "x", Body: "<b>", Actions: []platform.NoticeAction{{Key: "stop", Label: "Stop"}}})
	must(t, err)
	if got := <-s.notify; len(got.actions) != 0 || got.body != "<b>" {
		t.Errorf("%+v", got)
	}
}

// Where nobody shows notices it says so, and nothing hangs.
func TestNobodyThere(t *testing.T) {
	none := Options{Getenv: func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": t.TempDir()}[name] }}
	empty := New(none)
	defer empty.Close()
	if _, err := empty.Show(ctx(t), 0, platform.Notice{Title: "x"}); !errors.Is(err, platform.ErrNoNotices) {
		t.Errorf("without a bus: %v", err)
	}
	if _, err := notifierOn(t, bus(t)).Show(ctx(t), 0, platform.Notice{Title: "x"}); !errors.Is(err, platform.ErrNoNotices) {
		t.Errorf("without a server: %v", err)
	}

	path := filepath.Join(t.TempDir(), "mute")
	l, err := net.Listen("unix", path)
	must(t, err)
	defer l.Close()
	c, cancel := context.WithCancel(context.Background())
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := l.Accept(); err == nil {
			accepted <- conn
			cancel() // it was dialled, and is never answered
		}
	}()
	if _, err := notifierOn(t, "unix:path="+path).Show(c, 0, platform.Notice{Title: "x"}); err == nil {
		t.Error("a bus that says nothing showed it")
	}
	_ = (<-accepted).Close()
}

// A bus that ended is dialled anew.
func TestServerComesBack(t *testing.T) {
	address := bus(t)
	first := serve(t, address, "body")
	n := notifierOn(t, address)
	c := ctx(t)
	_, err := n.Show(c, 0, platform.Notice{Title: "1"})
	must(t, err)
	<-first.notify
	must(t, n.(*notifier).conn.Close())
	id, err := n.Show(c, 0, platform.Notice{Title: "2"})
	must(t, err)
	if got := <-first.notify; got.title != "2" || id == 0 {
		t.Errorf("%+v", got)
	}
	must(t, n.Close())
	if _, err := n.Show(c, 0, platform.Notice{Title: "3"}); err == nil {
		t.Error("shown after Close")
	}
	must(t, n.Withdraw(c, id))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
