package screen

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
	"github.com/handrail-dev/handrail/platform/x11/x11test"
	"github.com/handrail-dev/handrail/test/desk"
)

// lend returns memory for area, and its pixels as they are now.
func lend(t testing.TB, s *Screen, area platform.Rect) (pix []byte, back func()) {
	t.Helper()
	pix, back = s.Lend(x11test.Within(t), area.Width*area.Height*4)
	if pix == nil {
		t.Fatal("nothing is lent")
	}
	if err := s.Grab(x11test.Within(t), area, false, pix); err != nil {
		t.Fatal(err)
	}
	return pix, back
}

// solid reports whether every pixel has this colour.
func solid(pix []byte, colour uint32) bool {
	for i := 0; i < len(pix); i += 4 {
		if pix[i] != byte(colour) || pix[i+1] != byte(colour>>8) || pix[i+2] != byte(colour>>16) {
			return false
		}
	}
	return true
}

// A picture stays as it is until it was given back, however many are taken after it; and
// no more are lent than is bounded.
func TestLentPicturesStay(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	p := x11test.NewPainter(t, x11test.Dial(t, d))
	all := platform.Rect{Width: 640, Height: 480}
	paint := func(colour uint32) {
		t.Helper()
		p.Fill(all, colour)
		if err := p.C.Sync(x11test.Within(t)); err != nil {
			t.Fatal(err)
		}
	}
	var held [][]byte
	var backs []func()
	for i := range maxLent {
		paint(uint32(i+1) * 0x102030)
		pix, back := lend(t, s, all)
		held, backs = append(held, pix), append(backs, back)
	}
	if pix, _ := s.Lend(x11test.Within(t), 4); pix != nil {
		t.Error("more is lent than is bounded")
	}
	paint(0xabcdef) // is copied then
	own := make([]byte, len(held[0]))
	for range 3 {
		if err := s.Grab(x11test.Within(t), all, false, own); err != nil || !solid(own, 0xabcdef) {
			t.Fatal("what is copied is another picture:", err)
		}
	}
	for i, pix := range held {
		if !solid(pix, uint32(i+1)*0x102030) {
			t.Errorf("picture %d is another one", i)
		}
	}
	for round := range uint32(20) { // the same memory again
		backs[1]()
		paint(round)
		if held[1], backs[1] = lend(t, s, all); !solid(held[1], round) || !solid(held[0], 0x102030) {
			t.Fatal("a picture is another one")
		}
	}
	if n := len(s.shm.all); n > maxLent+1 {
		t.Errorf("%d segments for %d pictures", n, maxLent)
	}
	for _, back := range backs {
		back()
	}
	if s.Trim(); len(s.shm.all) != 0 {
		t.Errorf("%d segments are kept for nobody", len(s.shm.all))
	}
	if pix, back := lend(t, s, all); !solid(pix, 19) {
		t.Error("after Trim a picture is another one")
	} else {
		back()
	}
}

// Lent memory is as large as it is asked for, and few but large pictures are bounded, too.
func TestLentSizes(t *testing.T) {
	t.Parallel()
	s := openScreen(t, x11test.Bare(t, "640x480"))
	for _, size := range []int{1, 4096, 1 << 20, 4, 3 << 20, 2 << 20} {
		pix, back := s.Lend(x11test.Within(t), size)
		if len(pix) != size || cap(pix) != size {
			t.Fatalf("%d bytes of %d for %d", len(pix), cap(pix), size)
		}
		pix[size-1] = 1
		back()
	}
	if len(s.shm.all) != 1 {
		t.Errorf("%d segments for one picture at a time", len(s.shm.all))
	}
	large, back := s.Lend(x11test.Within(t), maxLentBytes+1)
	if large == nil {
		t.Error("the only picture is not lent memory")
	}
	if more, _ := s.Lend(x11test.Within(t), 4096); more != nil {
		t.Error("more bytes are lent than is bounded")
	}
	back()
}

// lendSolid is lend once the picture is of one colour.
func lendSolid(t *testing.T, s *Screen, area platform.Rect, colour uint32) (pix []byte, back func()) {
	t.Helper()
	desk.Await(t, "the colour", func() bool {
		if back != nil {
			back()
		}
		pix, back = lend(t, s, area)
		return solid(pix, colour)
	})
	return pix, back
}

// A picture outlives its server, its connection and its Screen.
func TestLentPictureOutlivesServer(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(d *desk.Desk, c *wire.Conn){
		"server killed":   func(d *desk.Desk, _ *wire.Conn) { d.KillServer() },
		"connection ends": func(_ *desk.Desk, c *wire.Conn) { _ = c.Close() },
		"Screen closed":   func(*desk.Desk, *wire.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := x11test.Bare(t, "640x480")
			s := openScreen(t, d)
			all := platform.Rect{Width: 640, Height: 480}
			x11test.NewPainter(t, x11test.Dial(t, d)).Fill(all, 0x3478c1)
			pix, back := lendSolid(t, s, all, 0x3478c1)
			other, giveOther := lend(t, s, all)
			cut(d, s.c)
			if name != "Screen closed" {
				if err := s.Grab(x11test.Within(t), all, false, other); !errors.Is(err, platform.ErrLost) {
					t.Errorf("Grab: %v", err)
				}
				if more, _ := s.Lend(x11test.Within(t), 1<<20); more != nil {
					t.Error("memory is lent that no server writes to")
				}
			}
			if !solid(pix, 0x3478c1) {
				t.Error("the picture is another one")
			}
			giveOther()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if !solid(pix, 0x3478c1) {
				t.Error("after Close the picture is another one")
			}
			back()
		})
	}
}

// The server may still write into memory that a caller gave up, so it is for nobody else.
func TestGivenUpMemoryIsNotLentAgain(t *testing.T) {
	t.Parallel()
	d := x11test.Bare(t, "640x480")
	s := openScreen(t, d)
	p := x11test.NewPainter(t, x11test.Dial(t, d))
	all := platform.Rect{Width: 640, Height: 480}
	p.Fill(all, 0x112233)
	if err := p.C.Sync(x11test.Within(t)); err != nil {
		t.Fatal(err)
	}
	pix, back := lend(t, s, all)
	gone := s.shm.of(pix)
	d.Server.Freeze()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Grab(ctx, all, false, pix); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that hangs: %v", err)
	}
	own := make([]byte, len(pix))
	again, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Grab(again, all, false, own); err == nil {
		t.Error("a copy of a server that hangs")
	}
	back()
	d.Server.Thaw()
	for range maxLent {
		if pix, back = lend(t, s, all); s.shm.of(pix) == gone || !solid(pix, 0x112233) {
			t.Error("memory is lent that the server may write to")
		}
		defer back()
	}
	if slices.Contains(s.shm.all, gone) {
		t.Error("what was given up is kept")
	}
}

// The screen becomes smaller while a picture of it is lent.
func TestLentPictureOfLargerScreen(t *testing.T) {
	t.Parallel()
	outer := x11test.Bare(t, "1100x800")
	d, _ := outer.StartXephyr(desk.Options{Size: "1024x768", NoWM: true, NoBus: true}) // Xvfb has one mode only
	s := openScreen(t, d)
	d.Run("xsetroot", "-solid", "#445566")
	all := platform.Rect{Width: 1024, Height: 768}
	pix, back := lendSolid(t, s, all, 0x445566)
	d.Run("xrandr", "--size", "640x480")
	d.Run("xsetroot", "-solid", "#778899")
	if l, err := s.Layout(x11test.Within(t)); err != nil || l.Whole() != (platform.Rect{Width: 640, Height: 480}) {
		t.Fatal(l, err)
	}
	var after []byte
	giveAfter := func() {}
	desk.Await(t, "the new colour", func() bool {
		giveAfter()
		after, giveAfter = lend(t, s, all)
		return solid(after[:640*4], 0x778899)
	})
	defer func() { giveAfter() }()
	if !solid(after[640*4:1024*4], 0) || !solid(after[480*1024*4:], 0) {
		t.Error("what is not on the screen is not black, or what is is not the screen")
	}
	if !solid(pix, 0x445566) {
		t.Error("the picture of the larger screen is another one")
	}
	back()
	small := platform.Rect{Width: 640, Height: 480}
	now, giveNow := lend(t, s, small)
	defer giveNow()
	if !solid(now, 0x778899) {
		t.Error("in memory of a larger picture it is another one")
	}
}

// Grab fills what is lent as it fills anything else: parts, over the edge, with the
// pointer, and where the server's pixels are not ours or no memory is shared.
func TestLentIsWhatIsCopied(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"24": {"-screen", "0", "701x499x24"}, "16": {"-screen", "0", "701x499x16"}, "30": {"-screen", "0", "701x499x30"},
		"none": {"-screen", "0", "701x499x24", "-extension", "MIT-SHM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := x11test.Bare(t, "", args...)
			s := openScreen(t, d)
			p := x11test.NewPainter(t, x11test.Dial(t, d))
			for i := range 40 {
				p.Fill(platform.Rect{X: i * 17, Y: i * 12, Width: 90, Height: 70}, uint32(i)*0x050301+0x203040)
			}
			xproto.WarpPointer(p.C.X, 0, p.C.Root(), 0, 0, 0, 0, 60, 60)
			if err := p.C.Sync(x11test.Within(t)); err != nil {
				t.Fatal(err)
			}
			if name == "none" {
				if pix, _ := s.Lend(x11test.Within(t), 4096); pix != nil {
					t.Error("memory is lent that no server shares")
				}
				return
			}
			for _, area := range []platform.Rect{{Width: 701, Height: 499}, {X: 20, Y: 11, Width: 333, Height: 222}, {X: 600, Y: -10, Width: 200, Height: 50}, {Width: 701, Height: 600}} {
				pix, back := s.Lend(x11test.Within(t), area.Width*area.Height*4)
				for i := range pix {
					pix[i] = 0x77
				}
				if err := s.Grab(x11test.Within(t), area, true, pix); err != nil {
					t.Fatal(err)
				}
				if want := grab(t, s, area, true); !slices.Equal(unused(slices.Clone(pix)), want) {
					t.Errorf("%v: what is lent is not what is copied", area)
				}
				back()
			}
		})
	}
}
