package atspi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// message encodes a reply with a body.
func message(t testing.TB, body ...any) []byte {
	t.Helper()
	m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(uint32(7)), dbus.FieldSender: dbus.MakeVariant(":1.5"),
	}, Body: body}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	var b bytes.Buffer
	if err := m.EncodeTo(&b, binary.LittleEndian); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	binary.LittleEndian.PutUint32(data[8:], 3) // a serial, which sending gives it
	return data
}

type pair struct {
	Bus  string
	Path dbus.ObjectPath
}

type wireItem struct {
	Self, App, Parent pair
	Index, Count      int32
	Interfaces        []string
	Name              string
	Role              uint32
	Description       string
	States            []uint32
}

func wire(path, parent string, index, count int32, name string) wireItem {
	root := "/org/a11y/atspi/accessible/"
	return wireItem{pair{":1.5", dbus.ObjectPath(root + path)}, pair{":1.5", pathRoot}, pair{":1.5", dbus.ObjectPath(root + parent)}, index, count,
		[]string{ifComponent}, name, 43, "d", []uint32{1 << 25, 0}}
}

// For any bytes that an application sends as its cache, the mirror and the answer
// made of it are small, have each element once, and parents before children.
func FuzzItems(f *testing.F) {
	seed := func(items ...wireItem) { f.Add(message(f, items)) }
	seed(wire("root", "null", -1, 1, "app"), wire("1", "root", 0, 2, "window"), wire("2", "1", 1, 0, "b"), wire("3", "1", 0, 0, "a"))
	seed(wire("root", "1", 0, 1, "a"), wire("1", "root", 0, 1, "cycle"))
	seed(wire("root", "root", 0, 1, "own parent"), wire("1", "1", -5, 1<<30, strings.Repeat("é", 5000)))
	seed(wire("root", "null", 0, 3, ""), wire("1", "root", 0, 0, "twice"), wire("1", "root", 1, 0, "twice"), wire("2", "root", 7, 0, "far"))
	f.Add(message(f, []struct {
		Self, App, Parent pair
		Children          []pair
		Interfaces        []string
		Name              string
		Role              uint32
		Description       string
		States            []uint32
	}{{pair{":1.5", pathRoot}, pair{":1.5", pathRoot}, pair{"", pathNull}, []pair{{":1.5", pathRoot}}, nil, "old", 75, "", []uint32{0}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := dbus.DecodeMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		items, _ := decodeItems(m.Body)
		if len(items) > maxNodes {
			t.Fatalf("%d items", len(items))
		}
		p := newApp(&session{id: "bus", few: fewNodes}, place{":1.5", pathRoot})
		p.known = true
		for range 2 { // a cache that is read again
			p.install(items, false, p.count)
		}
		p.changed("Object", "ChildrenChanged", "add", 0, p.root, p.root)
		p.renewLocked(p.root)
		p.lackingLocked(p.root)
		list, _, _ := p.elements(t.Context(), platform.TreeQuery{MaxElements: 100}, p.root, func(context.Context) []platform.Window { return nil })
		seen := map[string]bool{}
		for i, e := range list {
			if len(e.Ref) > 512 || len(e.Name) > maxName || len(e.Description) > maxName || !utf8.ValidString(e.Name) || seen[e.Ref] || e.Parent >= i {
				t.Fatalf("element %d is %+v", i, e)
			}
			seen[e.Ref] = true
		}
		p.sweepLocked()
	})
}

// A message that is too large is thrown away, and those after it are read.
func TestGuardDropsTooLarge(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	defer ours.Close()
	small, large := message(t, "small"), message(t, strings.Repeat("x", maxMessage))
	go func() {
		defer theirs.Close()
		for _, m := range [][]byte{small, large, large, small} {
			if _, err := theirs.Write(m); err != nil {
				return
			}
		}
	}()
	g := newGuard(ours)
	g.framed = true
	for range 2 {
		m, err := dbus.DecodeMessage(g)
		if err != nil || len(m.Body) != 1 || m.Body[0] != "small" {
			t.Fatalf("read %v, %v", m, err)
		}
	}
	if _, err := dbus.DecodeMessage(g); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

func FuzzRefs(f *testing.F) {
	f.Add("atspi:abcdef:1.5/org/a11y/atspi/accessible/root")
	f.Add("atspi:abcdef:1.5")
	f.Add("atspi:abcdef../x")
	f.Fuzz(func(t *testing.T, ref string) {
		s := &session{id: "abcdef"}
		if at, err := s.place(ref); err == nil && (s.ref(at) != ref || !at.path.IsValid()) {
			t.Errorf("%q was read as %v", ref, at)
		}
	})
}

// hostile is an application on a real bus that lies: its children have children
// without end, some are itself, names are long, and counts are absurd.
type hostile struct{ name string }

func (h hostile) at(path dbus.ObjectPath) pair { return pair{h.name, path} }

func (h hostile) GetChildren(m dbus.Message) ([]pair, *dbus.Error) {
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	kids := []pair{h.at(pathRoot), h.at(path), {":1.0", pathRoot}, {"", pathNull}}
	for i := range 200 {
		kids = append(kids, h.at(path+dbus.ObjectPath(fmt.Sprint("/", i))))
	}
	return kids, nil
}
func (h hostile) GetRole() (uint32, *dbus.Error) { return 43, nil }
func (h hostile) GetState() ([]uint32, *dbus.Error) {
	return []uint32{^uint32(0) &^ stDefunct, ^uint32(0)}, nil
}
func (h hostile) GetInterfaces() ([]string, *dbus.Error) {
	return []string{ifComponent, ifText, ifAction, ifValue, ifSelection}, nil
}
func (h hostile) GetChildAtIndex(m dbus.Message, i int32) (pair, *dbus.Error) {
	path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	return h.at(path + dbus.ObjectPath(fmt.Sprint("/", i))), nil
}
func (h hostile) GetIndexInParent() (int32, *dbus.Error) { return -1, nil }
func (h hostile) GetExtents(uint32) (struct{ X, Y, W, H int32 }, *dbus.Error) {
	return struct{ X, Y, W, H int32 }{-1 << 31, -1 << 31, 1<<31 - 1, 1<<31 - 1}, nil
}
func (h hostile) GetText(from, to int32) (string, *dbus.Error) {
	return strings.Repeat("text ", 100_000), nil
}
func (h hostile) Get(iface, name string) (dbus.Variant, *dbus.Error) {
	switch name {
	case "ChildCount", "CharacterCount":
		return dbus.MakeVariant(int32(1<<31 - 1)), nil
	case "CurrentValue":
		return dbus.MakeVariant("no number"), nil
	}
	return dbus.MakeVariant(strings.Repeat("name ", 10_000)), nil
}

// embed has what c exports at pathRoot among the desk's applications.
func embed(t *testing.T, a *Accessibility, c *dbus.Conn) {
	t.Helper()
	if err := c.Object(ifRegistry, pathRoot).Call("org.a11y.atspi.Socket.Embed", 0, pair{c.Names()[0], pathRoot}).Err; err != nil {
		t.Fatal(err)
	}
	a.session.mu.Lock()
	a.session.own = -1 // it is in this process, which is left out otherwise
	a.session.mu.Unlock()
}

func TestHostileApplication(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	a := ears(t, d)
	well := d.Fixture(desk.GTK3, 3)
	named(t, a, well.PID, "button", "button")
	c, err := dbus.Connect(d.A11y)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h := hostile{c.Names()[0]}
	for _, iface := range []string{ifAccessible, ifComponent, ifText, ifProperties} {
		if err := c.ExportSubtree(h, pathRoot, iface); err != nil {
			t.Fatal(err)
		}
	}
	embed(t, a, c)
	tree := read(t, a, platform.TreeQuery{Bounds: true, MaxElements: 500, PerApp: 3 * time.Second})
	mine := 0
	for _, e := range tree.Elements {
		if len(e.Name) > maxName || len(e.Ref) > 512 || len(e.Value) > 4*maxValue || !e.Bounds.Empty() && e.Bounds.Width > 1<<25 {
			t.Errorf("an element is %.600v", e)
		}
		if e.PID != well.PID {
			mine++
		}
	}
	if len(tree.Elements) > 500 || mine == 0 && len(tree.Hung) == 0 {
		t.Errorf("%d elements, %d of the hostile one; hung %q", len(tree.Elements), mine, tree.Hung)
	}
	named(t, a, well.PID, "button", "button") // the other goes on
}
