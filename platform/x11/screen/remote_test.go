package screen

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
)

// Over TCP, as through ssh, no memory is shared.
func TestRemoteServer(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480", "-listen", "tcp", "-ac")
	d.Run("xsetroot", "-solid", "#3478c1")
	c, err := wire.Dial(x11test.Within(t), wire.Options{Display: "127.0.0.1:" + strconv.Itoa(d.DisplayNumber())})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := New(x11test.Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := platform.Rect{Width: 640, Height: 480}
	if got := grab(t, s, all, false); !slices.Equal(got, seen(t, d)) || !s.shm.off {
		t.Error("the pixels are others, or memory was shared with another machine")
	}
}

// Servers older than the passing of descriptors share memory by its number.
func TestSharedMemoryByNumber(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	d.Run("xsetroot", "-solid", "#3478c1")
	s := openScreen(t, d)
	g, err := s.shm.attachID(x11test.Within(t), 640*480*4)
	if err != nil {
		t.Fatal(err)
	}
	s.shm.give(g)
	if got := grab(t, s, platform.Rect{Width: 640, Height: 480}, false); !slices.Equal(got, seen(t, d)) {
		t.Error("the pixels are others")
	}
	if out, err := d.Try("ipcs", "-m", "-p"); err == nil && strings.Contains(out, " "+strconv.Itoa(os.Getpid())+" ") &&
		!strings.Contains(d.Run("ipcs", "-m"), "dest") {
		t.Error("the memory would outlive a crash")
	}
}
