//go:build linux

package desktop_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/screen"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/test/desk"
)

// ailingServer is d's server at another number, where one request of an extension is none
// that the server knows.
func ailingServer(t *testing.T, d *desk.Desk, major, minor byte) (display string) {
	t.Helper()
	const sockets = "/tmp/.X11-unix/X"
	var l net.Listener
	var err error
	number := 51000
	for ; l == nil && number < 59000; number++ { // beyond those that servers of tests take
		if l, err = net.Listen("unix", sockets+strconv.Itoa(number)); err == nil {
			break
		}
	}
	if l == nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", sockets+strings.TrimPrefix(d.Display, ":"))
			if err != nil {
				_ = client.Close()
				return
			}
			all.Go(func() {
				_, _ = io.Copy(client, server)
				_ = client.Close()
			})
			all.Go(func() {
				_ = spoil(server, client, major, minor)
				_ = server.Close()
			})
		}
	})
	return ":" + strconv.Itoa(number)
}

// spoil hands a client's requests on:
//
//	setup:   'l', 0, 11:2, 0:2, len(name):2, len(data):2, 0:2, name, data (each padded to 4)
//	request: major, minor, length in words:2, …
func spoil(server io.Writer, client io.Reader, major, minor byte) error {
	setup := make([]byte, 12)
	if _, err := io.ReadFull(client, setup); err != nil {
		return err
	}
	padded := func(at int) int64 { return int64(binary.LittleEndian.Uint16(setup[at:])+3) &^ 3 }
	if _, err := server.Write(setup); err != nil {
		return err
	}
	if _, err := io.CopyN(server, client, padded(6)+padded(8)); err != nil {
		return err
	}
	for {
		head := make([]byte, 4)
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		length := int64(binary.LittleEndian.Uint16(head[2:]))*4 - 4
		if head[0] == major && head[1] == minor {
			head[0] = 0xff
		}
		if _, err := server.Write(head); err != nil {
			return err
		}
		if _, err := io.CopyN(server, client, length); err != nil {
			return err
		}
	}
}

// A server whose displays cannot be asked for, though it says that they can: our grabber
// does not open, and another library's reads the same pixels. The desktop says so.
func TestPixelsByAnotherLibrary(t *testing.T) {
	d := desk.StartX(t, desk.Options{NoBus: true, NoWM: true, Size: "701x499"})
	d.Run("xsetroot", "-mod", "7", "5", "-fg", "#3478c1", "-bg", "#c1a034")
	c, err := wire.Dial(t.Context(), wire.Options{Display: d.Display})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	randr, err := c.Extension(t.Context(), "RANDR")
	if err != nil {
		t.Fatal(err)
	}
	const getMonitors = 42
	display := ailingServer(t, d, randr.Major, getMonitors)
	t.Setenv("XDG_SESSION_TYPE", "x11")
	change := map[string]string{"DISPLAY": display, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}

	// Other programs have another display: then nothing stands in for it.
	t.Setenv("DISPLAY", d.Display)
	if _, err := open(t, d, change).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "BadRequest") {
		t.Errorf("the server is not as ailing as it should be: %v", err)
	}

	t.Setenv("DISPLAY", display)
	opened, err := open(t, d, change).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if why := opened.Instead[platform.PartScreen]; !strings.Contains(opened.Name, "pixels by kbinani/screenshot") ||
		!strings.Contains(why, "kbinani/screenshot") || !strings.Contains(why, "BadRequest") {
		t.Errorf("the desktop %q says %q of its pixels", opened.Name, why)
	}
	own, err := screen.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	area := platform.Rect{Width: 701, Height: 499}
	want := make([]byte, area.Width*area.Height*4)
	if err := own.Grab(t.Context(), area, false, want); err != nil {
		t.Fatal(err)
	}
	for i := 3; i < len(want); i += 4 {
		want[i] = 0 // says nothing
	}
	layout, err := opened.Screen.Layout(t.Context())
	if err != nil || layout.Whole() != area {
		t.Errorf("the layout is %+v: %v", layout, err)
	}
	frame, err := opened.Screen.Frame(t.Context(), area, true)
	if err != nil {
		t.Fatal(err)
	}
	defer frame.Release()
	if !bytes.Equal(frame.Pix, want) {
		t.Error("the pixels are others")
	}
	if opened.Input == nil || opened.Windows == nil || opened.Clipboard == nil {
		t.Errorf("with the pixels went more: %+v", opened.Missing)
	}
}
