//go:build unix

package desktop

import (
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/jezek/xgb"
	"github.com/jezek/xgb/shm"
	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"
	"golang.org/x/sys/unix"
)

// The floors: the same things with nothing around them.

func (b *bench) bare() *xgb.Conn {
	c, err := xgb.NewConnDisplay(b.d.Display)
	b.must(err)
	b.t.Cleanup(c.Close)
	return c
}

// bareGrab has the server copy the screen into shared memory, and no more.
func bareGrab(b *bench) func() {
	c := b.bare()
	b.must(shm.Init(c))
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1920*1080*4, 0o600)
	b.must(err)
	seg, err := shm.NewSegId(c)
	b.must(err)
	b.must(shm.AttachChecked(c, seg, uint32(id), false).Check())
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	b.must(err)
	root := xproto.Setup(c).DefaultScreen(c).Root
	return func() {
		_, err := shm.GetImage(c, xproto.Drawable(root), 0, 0, 1920, 1080, ^uint32(0), xproto.ImageFormatZPixmap, seg, 0).Reply()
		b.must(err)
	}
}

func bareMove(b *bench) func() {
	c := b.bare()
	b.must(xtest.Init(c))
	root := xproto.Setup(c).DefaultScreen(c).Root
	x := 0
	return func() {
		x = (x + 7) % 500
		xtest.FakeInput(c, xproto.MotionNotify, 0, 0, root, int16(1000+x), 700, 0)
		_, err := xproto.QueryPointer(c, root).Reply()
		b.must(err)
	}
}

func bareClick(b *bench) func() {
	c := b.bare()
	b.must(xtest.Init(c))
	root := xproto.Setup(c).DefaultScreen(c).Root
	return func() {
		xtest.FakeInput(c, xproto.ButtonPress, 1, 0, root, 0, 0, 0)
		xtest.FakeInput(c, xproto.ButtonRelease, 1, 0, root, 0, 0, 0)
		_, err := xproto.QueryPointer(c, root).Reply()
		b.must(err)
	}
}

// naiveWalk asks for each element's name, role, states, extents and children, one
// after the other.
func naiveWalk(b *bench, pid int) (ms float64, visited int) {
	c, err := dbus.Connect(b.d.A11y)
	b.must(err)
	defer c.Close()
	type ref struct {
		Name string
		Path dbus.ObjectPath
	}
	var top []ref
	b.must(c.Object("org.a11y.atspi.Registry", "/org/a11y/atspi/accessible/root").Call("org.a11y.atspi.Accessible.GetChildren", 0).Store(&top))
	for _, app := range top {
		var owner uint32
		if c.BusObject().Call("org.freedesktop.DBus.GetConnectionUnixProcessID", 0, app.Name).Store(&owner) != nil || int(owner) != pid {
			continue
		}
		began := time.Now()
		walk := []ref{app}
		for len(walk) > 0 {
			r := walk[len(walk)-1]
			walk = walk[:len(walk)-1]
			o := c.Object(r.Name, r.Path)
			_, _ = o.GetProperty("org.a11y.atspi.Accessible.Name")
			_ = o.Call("org.a11y.atspi.Accessible.GetRole", 0).Err
			_ = o.Call("org.a11y.atspi.Accessible.GetState", 0).Err
			_ = o.Call("org.a11y.atspi.Component.GetExtents", 0, uint32(0)).Err
			var children []ref
			if o.Call("org.a11y.atspi.Accessible.GetChildren", 0).Store(&children) == nil && len(walk) < 10000 {
				walk = append(walk, children...)
			}
			visited++
		}
		return float64(time.Since(began).Microseconds()) / 1000, visited
	}
	return 0, 0
}
