//go:build linux

package portal_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/wayland"
	"github.com/handrail-dev/handrail/test/desk"
)

const implName = "org.freedesktop.impl.portal.desktop.handrailtest"

// backend is a desktop's part of the portal, behind the real xdg-desktop-portal: it
// does on a Sway what GNOME's and KDE's do on their own compositors.
type backend struct {
	t      *testing.T
	sway   *desk.Sway
	layout func() (platform.Layout, []platform.Rect)
	hands  *wayland.Input
	conn   *dbus.Conn

	mu      sync.Mutex // above what follows
	refuse  uint32     // what dialogs are answered with; 0: yes
	asked   []string
	shots   []string
	session dbus.ObjectPath
	lend    uint32 // devices
	ends    bool   // a session ends while the person is asked, who never answers

	next  *sync.Cond // above order
	order []uint32   // the events as they came: each is carried out by a goroutine of its own
}

// inTurn waits until the events before m are over; the answer ends m's.
func (b *backend) inTurn(m dbus.Message) (over func()) {
	b.next.L.Lock()
	defer b.next.L.Unlock()
	for b.order[0] != m.Serial() {
		b.next.Wait()
	}
	return func() {
		b.next.L.Lock()
		defer b.next.L.Unlock()
		b.order = b.order[1:]
		b.next.Broadcast()
	}
}

type vars = map[string]dbus.Variant

func (b *backend) dialog(name string) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, name)
	return b.refuse
}

func (b *backend) dialogs() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// The interfaces, each a type of its own for their methods' names.
type (
	access  struct{ *backend }
	shooter struct{ *backend }
	lender  struct{ *backend }
	caster  struct{ *backend }
	ender   struct{ *backend }
)

func (a access) AccessDialog(_ dbus.ObjectPath, _, _, _, _, _ string, _ vars) (uint32, vars, *dbus.Error) {
	return a.dialog("access"), vars{}, nil
}

func (s shooter) Screenshot(_ dbus.ObjectPath, _, _ string, _ vars) (uint32, vars, *dbus.Error) {
	f, err := os.CreateTemp(s.sway.Runtime, "shot-*.png")
	if err != nil {
		return 2, vars{}, nil
	}
	_ = f.Close()
	if _, err := s.sway.Try("grim", f.Name()); err != nil {
		return 2, vars{}, nil
	}
	s.mu.Lock()
	s.shots = append(s.shots, f.Name())
	s.mu.Unlock()
	return 0, vars{"uri": dbus.MakeVariant("file://" + f.Name())}, nil
}

func (l lender) CreateSession(_, session dbus.ObjectPath, _ string, _ vars) (uint32, vars, *dbus.Error) {
	l.mu.Lock()
	l.session = session
	l.mu.Unlock()
	if err := l.conn.Export(ender(l), session, "org.freedesktop.impl.portal.Session"); err != nil {
		return 2, vars{}, nil
	}
	return 0, vars{}, nil
}

func (l lender) SelectDevices(_, _ dbus.ObjectPath, _ string, _ vars) (uint32, vars, *dbus.Error) {
	return 0, vars{}, nil
}

func (l lender) Start(_, _ dbus.ObjectPath, _, _ string, _ vars) (uint32, vars, *dbus.Error) {
	if code := l.dialog("remote"); code != 0 {
		return code, vars{}, nil
	}
	l.mu.Lock()
	ends := l.ends
	l.mu.Unlock()
	if ends {
		l.end()
		<-l.t.Context().Done()
		return 2, vars{}, nil
	}
	type stream struct {
		Node  uint32
		Props vars
	}
	_, logical := l.layout()
	var all []stream
	for i, r := range logical {
		type pair struct{ X, Y int32 }
		all = append(all, stream{uint32(100 + i), vars{"position": dbus.MakeVariant(pair{int32(r.X), int32(r.Y)}), "size": dbus.MakeVariant(pair{int32(r.Width), int32(r.Height)}),
			"source_type": dbus.MakeVariant(uint32(1))}})
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, vars{"devices": dbus.MakeVariant(l.lend), "streams": dbus.MakeVariant(all)}, nil
}

func (c caster) SelectSources(_, _ dbus.ObjectPath, _ string, _ vars) (uint32, vars, *dbus.Error) {
	return 0, vars{}, nil
}

func (ender) Close() *dbus.Error { return nil }

// end has the person stop it by the desktop's own means.
func (b *backend) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.conn.Emit(b.session, "org.freedesktop.impl.portal.Session.Closed")
}

// The events, carried out on the Sway.

// did reports an event that failed. The portal answers before its desktop has done an
// event, so a test's last one may come when the desktop is being closed: nobody waits for it.
func (l lender) did(err error) *dbus.Error {
	if err != nil && l.t.Context().Err() == nil {
		l.t.Errorf("the desktop did not do it: %v", err)
	}
	return nil
}

func (l lender) NotifyPointerMotionAbsolute(m dbus.Message, _ dbus.ObjectPath, _ vars, stream uint32, x, y float64) *dbus.Error {
	defer l.inTurn(m)()
	layout, logical := l.layout()
	i := int(stream) - 100
	b, r := layout.Displays[i].Bounds, logical[i]
	return l.did(l.hands.Move(context.Background(), platform.Point{X: b.X + int(x*float64(b.Width)/float64(r.Width)), Y: b.Y + int(y*float64(b.Height)/float64(r.Height))}))
}

func (l lender) NotifyPointerButton(m dbus.Message, _ dbus.ObjectPath, _ vars, button int32, state uint32) *dbus.Error {
	defer l.inTurn(m)()
	all := map[int32]platform.Button{0x110: platform.ButtonLeft, 0x111: platform.ButtonRight, 0x112: platform.ButtonMiddle}
	return l.did(l.hands.Button(context.Background(), all[button], state == 1))
}

func (l lender) NotifyPointerAxisDiscrete(m dbus.Message, _ dbus.ObjectPath, _ vars, axis uint32, steps int32) *dbus.Error {
	defer l.inTurn(m)()
	way := [2]int{}
	way[1-axis] = int(steps)
	return l.did(l.hands.Scroll(context.Background(), way[0], way[1]))
}

func (l lender) NotifyKeyboardKeycode(m dbus.Message, _ dbus.ObjectPath, _ vars, code int32, state uint32) *dbus.Error {
	defer l.inTurn(m)()
	for _, name := range platform.KeyNames {
		if c, ok := wayland.Keycode(name); ok && int32(c) == code {
			return l.did(l.hands.Key(context.Background(), name, state == 1))
		}
	}
	l.t.Errorf("the key %d is none", code)
	return nil
}

func (l lender) NotifyKeyboardKeysym(m dbus.Message, _ dbus.ObjectPath, _ vars, symbol int32, state uint32) *dbus.Error {
	defer l.inTurn(m)()
	r := rune(symbol &^ 0x01000000)
	return l.did(l.hands.Key(context.Background(), string(r), state == 1))
}

// startPortal starts the real portal on the desk's bus, with b behind it.
func (b *backend) startPortal() {
	b.t.Helper()
	const program = "/usr/libexec/xdg-desktop-portal"
	if _, err := os.Stat(program); err != nil {
		b.t.Fatalf("this test needs %s: install the package xdg-desktop-portal (.ci/setup test installs it)", program)
	}
	b.next = sync.NewCond(&sync.Mutex{})
	conn, err := dbus.Connect(b.sway.Bus, dbus.WithIncomingInterceptor(func(m *dbus.Message) {
		if name, _ := m.Headers[dbus.FieldMember].Value().(string); m.Type == dbus.TypeMethodCall && strings.HasPrefix(name, "Notify") {
			b.next.L.Lock()
			b.order = append(b.order, m.Serial())
			b.next.L.Unlock()
		}
	}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	b.conn = conn
	const path = "/org/freedesktop/portal/desktop"
	props := prop.Map{}
	constant := func(v uint32) *prop.Prop { return &prop.Prop{Value: v, Emit: prop.EmitConst} }
	for name, one := range map[string]struct {
		methods any
		props   map[string]*prop.Prop
	}{
		"Access":        {access{b}, nil},
		"Screenshot":    {shooter{b}, map[string]*prop.Prop{"version": constant(2)}},
		"RemoteDesktop": {lender{b}, map[string]*prop.Prop{"version": constant(1), "AvailableDeviceTypes": constant(3)}},
		"ScreenCast":    {caster{b}, map[string]*prop.Prop{"version": constant(3), "AvailableSourceTypes": constant(1), "AvailableCursorModes": constant(3)}},
	} {
		full := "org.freedesktop.impl.portal." + name
		if err := conn.Export(one.methods, path, full); err != nil {
			b.t.Fatal(err)
		}
		if one.props != nil {
			props[full] = one.props
		}
	}
	if _, err := prop.Export(conn, path, props); err != nil {
		b.t.Fatal(err)
	}
	if _, err := conn.RequestName(implName, 0); err != nil {
		b.t.Fatal(err)
	}
	portals := filepath.Join(b.sway.Home, "portals")
	config := filepath.Join(b.sway.Home, ".config", "xdg-desktop-portal")
	for _, dir := range []string{portals, config} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.t.Fatal(err)
		}
	}
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
	write(filepath.Join(portals, "handrailtest.portal"), "[portal]\nDBusName="+implName+"\nInterfaces=org.freedesktop.impl.portal.Access;org.freedesktop.impl.portal.Screenshot;"+
		"org.freedesktop.impl.portal.RemoteDesktop;org.freedesktop.impl.portal.ScreenCast;\nUseIn=handrailtest\n")
	write(filepath.Join(config, "portals.conf"), "[preferred]\ndefault=handrailtest\n") // newer portals choose by this
	p := b.sway.Start("env", "XDG_DESKTOP_PORTAL_DIR="+portals, "XDG_CURRENT_DESKTOP=handrailtest", program, "-r")
	desk.Await(b.t, "the portal", func() bool {
		if p.Ended() {
			b.t.Fatalf("xdg-desktop-portal ended: %v", p.Err)
		}
		var has bool
		return conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, "org.freedesktop.portal.Desktop").Store(&has) == nil && has
	})
}
