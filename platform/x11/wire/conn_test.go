package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jezek/xgb/xproto"
	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

func TestParseDisplay(t *testing.T) {
	for s, want := range map[string]address{
		":0":             {},
		":12.1":          {number: 12, screen: 1},
		"unix:3":         {number: 3},
		"host:10.0":      {host: "host", number: 10},
		"tcp/host:10":    {host: "host", number: 10},
		"::1:5":          {host: "::1", number: 5},
		"/tmp/l/org:0":   {socket: "/tmp/l/org:0"},
		"/tmp/l.x/o:1.2": {socket: "/tmp/l.x/o:1", number: 1, screen: 2},
	} {
		if got, err := parseDisplay(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "0", ":", ":x", ":-1", ":0.x", ":99999", ":0.-1", "host"} {
		if got, err := parseDisplay(s); err == nil {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

// entryOf is an entry of an authority file.
func entryOf(family uint16, fields ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, family)
	for _, f := range fields {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(f))), f...)
	}
	return b
}

func TestFindCookie(t *testing.T) {
	raw := slices.Concat(entryOf(256, "other", "0", magicCookie, "A"), entryOf(256, "here", "1", magicCookie, "B"),
		entryOf(256, "here", "0", "XDM-AUTHORIZATION-1", "C"), entryOf(256, "here", "0", magicCookie, "D"), entryOf(65535, "", "", magicCookie, "E"))
	for _, c := range [][3]string{{"here", "0", "D"}, {"here", "1", "B"}, {"other", "0", "A"}, {"nowhere", "7", "E"}} {
		if name, data := findCookie(raw, c[0], c[1]); name != magicCookie || string(data) != c[2] {
			t.Errorf("%s:%s has %q, want %q", c[0], c[1], data, c[2])
		}
	}
	if _, data := findCookie(raw[:20], "here", "0"); data != nil {
		t.Errorf("a torn file gave %q", data)
	}
}

func FuzzFindCookie(f *testing.F) {
	f.Add(entryOf(256, "here", "0", magicCookie, "0123456789abcdef"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		name, data := findCookie(raw, "here", "0")
		if (name == "") != (data == nil) || name != "" && !bytes.Contains(raw, append([]byte(name), 0, byte(len(data)))) && len(data) < 256 {
			t.Errorf("%q, %q", name, data)
		}
	})
}

// Nothing that a server says panics, and replies and errors pass as they are.
func FuzzWire(f *testing.F) {
	setup := append([]byte{1, 0, 11, 0, 0, 0, 1, 0}, "abcd"...)
	event := make([]byte, 32)
	event[0] = 28
	reply := make([]byte, 36)
	reply[0], reply[4] = 1, 1
	generic := make([]byte, 40)
	generic[0], generic[4] = GenericEvent, 2
	fault := make([]byte, 32)
	fault[1] = 150
	f.Add(slices.Concat(setup, event, reply, generic, fault, event))
	f.Add(slices.Concat(setup, []byte{GenericEvent, 0, 0, 0, 255, 255, 255, 255}, event))
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := 0
		w := newStream(stub{r: bytes.NewReader(stream)}, nil, func(e Event) {
			events += len(e.Data)
			if e.Code < 2 || e.Code > 127 || len(e.Data) < 32 || e.Code != GenericEvent && len(e.Data) != 32 {
				t.Errorf("event %+v", e)
			}
		})
		passed, _ := io.ReadAll(w)
		if len(passed)+events > len(stream) {
			t.Errorf("%d bytes became %d and %d", len(stream), len(passed), events)
		}
	})
}

// stub is a connection that only says something.
type stub struct {
	net.Conn
	r io.Reader
}

func (s stub) Read(p []byte) (int, error) { return s.r.Read(p) }

func TestAuthority(t *testing.T) {
	t.Parallel()
	cookie := "0123456789abcdef"
	dir := t.TempDir()
	right, wrong := filepath.Join(dir, "right"), filepath.Join(dir, "wrong")
	for file, data := range map[string]string{right: cookie, wrong: strings.Repeat("x", 16)} {
		if err := os.WriteFile(file, entryOf(65535, "", "", magicCookie, data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := bare(t, "", "-auth", right)
	c, err := Dial(within(t), Options{Display: d.Display, Authority: right})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, file := range []string{wrong, filepath.Join(dir, "none")} {
		_, err := Dial(within(t), Options{Display: d.Display, Authority: file})
		missing, ok := errors.AsType[*platform.MissingError](err)
		if !ok || !strings.Contains(missing.What, "refused") || !strings.Contains(missing.Fix, "XAUTHORITY") {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
	}
}

func TestDialSaysWhatIsMissing(t *testing.T) {
	t.Setenv("DISPLAY", "")
	for _, display := range []string{"", "nonsense", ":59000", "/no/such/socket:0"} {
		_, err := Dial(within(t), Options{Display: display})
		if missing, ok := errors.AsType[*platform.MissingError](err); !ok || missing.Fix == "" {
			t.Errorf("%q: %v", display, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, Options{Display: ":59000"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Two servers in one process, events and errors of extensions at both.
func TestTwoServers(t *testing.T) {
	var desks []*desk.Desk
	for _, without := range []string{"XTEST", "DAMAGE"} { // so that the numbers of extensions differ
		desks = append(desks, bare(t, "300x200", "-extension", without))
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var wg sync.WaitGroup
	for _, d := range desks {
		wg.Go(func() {
			c, err := Dial(within(t), Options{Display: d.Display})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			events := c.Subscribe(ctx, func(e Event) bool { return e.Code == xproto.PropertyNotify })
			if err := c.Listen(ctx, xproto.EventMaskPropertyChange); err != nil {
				t.Error(err)
				return
			}
			a, _ := c.Atom(ctx, "HANDRAIL_TEST")
			for i := range 200 {
				xproto.ChangeProperty(c.X, xproto.PropModeReplace, c.Root(), a, xproto.AtomString, 8, 1, []byte{byte(i)})
				xproto.DestroyWindow(c.X, 12345) // an error that nobody waits for
				if e := <-events; xproto.PropertyNotifyEventNew(e.Data).(xproto.PropertyNotifyEvent).Atom != a {
					t.Error("another property")
				}
				if err := c.Do(ctx, func() error { return xproto.MapWindowChecked(c.X, 54321).Check() }); err == nil {
					t.Error("an error was lost")
				}
			}
			if name, err := c.AtomName(ctx, a); name != "HANDRAIL_TEST" || err != nil {
				t.Error(name, err)
			}
			cancel()
			for range events {
			}
		})
	}
	wg.Wait()
}
