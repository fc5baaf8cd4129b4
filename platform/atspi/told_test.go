package atspi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// browser is an application on a real bus that answers as Chromium does, with one
// element below its root.
type browser struct {
	c    *dbus.Conn
	name string

	mu      sync.Mutex // guards what follows
	role    uint32
	states  uint64
	action  string
	onNames func() // called once, when the element is asked for an action's name, before it answers
}

const onlyElement = pathRoot + "/1"

func (b *browser) at(path dbus.ObjectPath) pair { return pair{b.name, path} }

func (b *browser) set(role uint32, states uint64, action string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.role, b.states, b.action = role, states, action
}

// tells sends an event.
func (b *browser) tells(path dbus.ObjectPath, member, detail string, one int32, value any) {
	if err := b.c.Emit(path, "org.a11y.atspi.Event.Object."+member, detail, one, int32(0), dbus.MakeVariant(value), map[string]dbus.Variant{}); err != nil {
		panic(err)
	}
}

func (b *browser) GetChildren(m dbus.Message) ([]pair, *dbus.Error) {
	if path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath); path == pathRoot {
		return []pair{b.at(onlyElement)}, nil
	}
	return nil, nil
}

func (b *browser) GetRole(m dbus.Message) (uint32, *dbus.Error) {
	if path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath); path == pathRoot {
		return 75, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.role, nil
}

func (b *browser) GetState() ([]uint32, *dbus.Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := b.states | stShowing | stVisible
	return []uint32{uint32(states), uint32(states >> 32)}, nil
}

func (b *browser) GetInterfaces() ([]string, *dbus.Error) {
	return []string{ifAccessible, ifAction}, nil
}

func (b *browser) GetActions() ([]struct{ Name, Description, Key string }, *dbus.Error) {
	return make([]struct{ Name, Description, Key string }, 1), nil
}

func (b *browser) GetName(m dbus.Message, _ int32) (string, *dbus.Error) {
	if path, _ := m.Headers[dbus.FieldPath].Value().(dbus.ObjectPath); path == pathRoot {
		return "doDefault", nil
	}
	b.mu.Lock()
	action, then := b.action, b.onNames
	b.onNames = nil
	b.mu.Unlock()
	if then != nil {
		then()
	}
	return action, nil
}

func (b *browser) GetItems() ([]wireItem, *dbus.Error) { return nil, nil }

func (b *browser) Get(iface, name string) (dbus.Variant, *dbus.Error) {
	switch name {
	case "ToolkitName":
		return dbus.MakeVariant("Chromium"), nil
	case "Name":
		return dbus.MakeVariant("it"), nil
	case "ChildCount":
		return dbus.MakeVariant(int32(1)), nil
	}
	return dbus.MakeVariant(""), nil
}

// openBrowser puts one on a desk's bus.
func openBrowser(t *testing.T, d *desk.Desk, a *Accessibility) *browser {
	t.Helper()
	read(t, a, platform.TreeQuery{})
	c, err := dbus.Connect(d.A11y)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	b := &browser{c: c, name: c.Names()[0]}
	for path, ifaces := range map[dbus.ObjectPath][]string{pathRoot: {ifAccessible, ifAction, ifProperties}, pathCache: {ifCache}} {
		for _, iface := range ifaces {
			if err := c.ExportSubtree(b, path, iface); err != nil {
				t.Fatal(err)
			}
		}
	}
	embed(t, a, c)
	return b
}

// it returns the element.
func (b *browser) it(t *testing.T, a *Accessibility) string {
	t.Helper()
	tree := read(t, a, platform.TreeQuery{Bounds: true})
	i := slices.IndexFunc(tree.Elements, func(e platform.Element) bool { return strings.HasSuffix(e.Ref, b.name+string(onlyElement)) })
	if i < 0 {
		t.Fatalf("there is no element in\n%s", outline(tree))
	}
	e := tree.Elements[i]
	return fmt.Sprintf("%s %v %v", e.Role, e.States, e.Actions)
}

// An event says that something is not what it was. Everything else that follows from that is asked
// for, whatever came first, the answers or the event.
func TestChangesThatAreToldInPart(t *testing.T) {
	t.Parallel()
	d := desk.StartX(t, desk.Options{})
	const usable = stEnabled | stSensitive | stFocusable
	for _, test := range []struct {
		name        string
		role        uint32
		states      uint64
		action      string
		tell        func(b *browser)
		before, now string
	}{
		{"disabled", 43, usable, "press", func(b *browser) {
			b.set(43, 0, "doDefault")
			b.tells(onlyElement, "StateChanged", "enabled", 0, int32(0))
			b.tells(onlyElement, "StateChanged", "sensitive", 0, int32(0))
		}, "button [enabled focusable visible] [press]", "button [visible] [dodefault]"},
		{"enabled and disabled", 43, 0, "doDefault", func(b *browser) {
			b.tells(onlyElement, "StateChanged", "enabled", 1, int32(0))
			b.set(43, 0, "other")
			b.tells(onlyElement, "StateChanged", "enabled", 0, int32(0))
		}, "button [visible] [dodefault]", "button [visible] [other]"},
		{"checked", 7, usable, "check", func(b *browser) {
			b.set(7, usable|stChecked, "uncheck")
			b.tells(onlyElement, "StateChanged", "checked", 1, int32(0))
		}, "checkbox [enabled focusable visible] [check]", "checkbox [checked enabled focusable visible] [uncheck]"},
		{"another in its place", 88, usable, "jump", func(b *browser) {
			b.set(85, usable, "doDefault")
			b.tells(pathRoot, "ChildrenChanged", "remove", 0, b.at(onlyElement))
			b.tells(pathRoot, "ChildrenChanged", "add", 0, b.at(onlyElement))
		}, "link [enabled focusable visible] [jump]", "section [enabled focusable visible] [dodefault]"},
		{"a password's field now, of which nothing is told", roleEntry, usable, "activate", func(b *browser) {
			b.set(rolePassword, usable|stRequired, "activate")
		}, "textbox [enabled focusable visible] [activate]", "textbox [enabled focusable protected required visible] [activate]"},
	} {
		for _, when := range []string{"between readings", "while its actions are read"} {
			t.Run(test.name+" "+when, func(t *testing.T) {
				a := ears(t, d)
				b := openBrowser(t, d, a)
				b.set(test.role, test.states, test.action)
				if when == "between readings" {
					if got := b.it(t, a); got != test.before {
						t.Fatalf("it is %s, not %s", got, test.before)
					}
					test.tell(b)
				} else {
					b.mu.Lock()
					b.onNames = func() { test.tell(b) }
					b.mu.Unlock()
					if got := b.it(t, a); got != test.before {
						t.Fatalf("it is %s, not %s, in the reading that it changed in", got, test.before)
					}
				}
				// A question's answer comes behind the events.
				if err := ask(t.Context(), a.session.bus, nil, call(place{b.name, pathRoot}, ifAccessible+".GetRole")); err != nil {
					t.Fatal(err)
				}
				for range 2 { // it stays so
					if got := b.it(t, a); got != test.now {
						t.Errorf("it is %s, not %s", got, test.now)
					}
				}
			})
		}
	}
}
