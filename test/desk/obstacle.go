package desk

import (
	"github.com/godbus/dbus/v5"
	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// HoldPointer shows a window of this process, titled "mine", at 10,10 with 100x100 pixels, and
// keeps the pointer in it until what it returns is called; the window stays.
func (d *Desk) HoldPointer() (release func()) {
	d.T.Helper()
	c, err := xgb.NewConnDisplay(d.Display)
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	d.T.Cleanup(c.Close)
	w, err := xproto.NewWindowId(c)
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	const name = "mine"
	xproto.CreateWindow(c, 0, w, xproto.Setup(c).DefaultScreen(c).Root, 10, 10, 100, 100, 0, xproto.WindowClassInputOutput, 0, 0, nil)
	xproto.ChangeProperty(c, xproto.PropModeReplace, w, xproto.AtomWmName, xproto.AtomString, 8, uint32(len(name)), []byte(name))
	xproto.MapWindow(c, w)
	Await(d.T, "the pointer to be held", func() bool {
		r, err := xproto.GrabPointer(c, false, w, 0, xproto.GrabModeAsync, xproto.GrabModeAsync, w, 0, 0).Reply()
		if err != nil {
			d.T.Fatalf("%v", err)
		}
		return r.Status == xproto.GrabStatusSuccess
	})
	return func() {
		if err := xproto.UngrabPointerChecked(c, 0).Check(); err != nil {
			d.T.Fatalf("%v", err)
		}
	}
}

// LockSession makes a screen saver known on the session bus that says it is on, until what it
// returns is called.
func (d *Desk) LockSession() (unlock func()) {
	d.T.Helper()
	const name = "org.freedesktop.ScreenSaver"
	c, err := dbus.Connect(d.Bus)
	if err == nil {
		d.T.Cleanup(func() { _ = c.Close() })
		err = c.Export(saver{}, "/org/freedesktop/ScreenSaver", name)
	}
	if err == nil {
		_, err = c.RequestName(name, 0)
	}
	if err != nil {
		d.T.Fatalf("%v", err)
	}
	return func() {
		if _, err := c.ReleaseName(name); err != nil {
			d.T.Fatalf("%v", err)
		}
	}
}

// saver is a screen saver that is on.
type saver struct{}

// GetActive answers who asks on the bus.
func (saver) GetActive() (bool, *dbus.Error) { return true, nil }
