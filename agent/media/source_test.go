package media

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// narrow is a viewer whose way takes one packet when it is told to.
type narrow struct {
	*viewer
	came chan struct{} // a packet is there
	open chan struct{} // closed: everything goes through
}

func newNarrow() *narrow {
	n := &narrow{came: make(chan struct{}, 1), open: make(chan struct{})}
	t := newTrack(vp8Codec)
	t.out = n
	n.viewer = &viewer{peer: &peer{track: t, rate: func() int { return startRate }}}
	return n
}

// WriteRTP takes a packet once the way is open.
func (n *narrow) WriteRTP(_ *rtp.Header, payload []byte) (int, error) {
	select {
	case n.came <- struct{}{}:
	default:
	}
	<-n.open
	return len(payload), nil
}

// A look that was put off because nobody could take a frame is made once somebody can,
// not when something else changes.
func TestFreeAgain(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	s := &source{h: h, wake: make(chan struct{}, 1), viewers: map[*viewer]bool{}}
	one := newNarrow()
	s.viewers[one.viewer] = true
	f := &frame{data: []byte{0, 1, 2}, at: time.Now(), key: true}
	if !one.begin(f) {
		t.Fatal("a new viewer takes no key frame")
	}
	s.sending.Go(func() { s.sendTo(t.Context(), one.viewer, f, startRate) })
	await(t, "packet", one.came)
	sc, err := s.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.next(t.Context(), sc); err != nil || desk.looked != 0 {
		t.Fatalf("looked %d times for nobody, %v", desk.looked, err)
	}
	select {
	case <-s.wake:
		t.Error("it is to look again before anybody can take a frame")
	default:
	}
	close(one.open)
	await(t, "word of who can take a frame", s.wake)
	s.sending.Wait()
}

// A viewer who comes after a screen was lost gets it anew, though somebody is still being sent what
// it showed last.
func TestRetired(t *testing.T) {
	desk := &still{news: make(chan platform.Rect, 1)}
	h, err := New(Options{Opener: desk})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lost, err := h.sourceFor("", outlet{codec: vp8Codec})
	if err != nil {
		t.Fatal(err)
	}
	slowly, quickly := newNarrow(), newFilm("robot", "c1", func() {})
	lost.add(&viewer{film: quickly})
	lost.add(slowly.viewer)
	await(t, "packet", slowly.came)
	desk.mu.Lock()
	close(desk.news)
	desk.news = make(chan platform.Rect, 1)
	desk.mu.Unlock()
	await(t, "end of what was lost", retired(t, h, lost))
	found, err := h.sourceFor("", outlet{codec: vp8Codec})
	if err != nil {
		t.Fatal(err)
	}
	again := newFilm("robot", "c2", func() {})
	found.add(&viewer{film: again})
	await(t, "picture of who came later", again.first)
	select {
	case <-lost.end:
		t.Error("it ended before all had what it sent")
	default:
	}
	close(slowly.open)
	h.unlook(lost)
	h.unlook(found)
}

// retired is closed when nobody can join src any more.
func retired(t *testing.T, h *Handler, src *source) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for t.Context().Err() == nil {
			h.mu.Lock()
			there := h.sources[src.display] == src
			h.mu.Unlock()
			if !there {
				return
			}
			_ = capabilities.Sleep(t.Context(), time.Millisecond)
		}
	}()
	return gone
}

// A viewer of a screen at rest gets next to nothing, but often enough not to take the
// screen for lost; a film gets nothing at all.
func TestAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := &still{news: make(chan platform.Rect, 1)}
		h, err := New(Options{Opener: desk})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		src, err := h.sourceFor("", outlet{codec: vp8Codec})
		if err != nil {
			t.Fatal(err)
		}
		one, m := newNarrow(), newFilm("robot", "c1", func() {})
		close(one.open)
		src.add(one.viewer)
		src.add(&viewer{film: m})
		film := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.web.Frames()
		}
		time.Sleep(5 * time.Second) // it becomes sharp
		shown, bytes, kept := one.shown.Load(), one.bytes.Load(), film()
		const rests = 60
		time.Sleep(rests * time.Second)
		if n := one.shown.Load() - shown; n < rests/3+1 || n > rests/2 {
			t.Errorf("%d frames in %d s", n, rests)
		}
		if n := (one.bytes.Load() - bytes) / (one.shown.Load() - shown); n > 100 {
			t.Errorf("a frame in which nothing is different has %d bytes", n)
		}
		if n := film() - kept; n != 0 {
			t.Errorf("the film has %d frames of it", n)
		}
		desk.change()
		time.Sleep(time.Second)
		if film() == kept {
			t.Error("the film stays as it was")
		}
		src.drop(one.viewer)
		h.unlook(src)
	})
}

// The last picture of a film is of after its end was asked for, not one that was on its
// way by then.
func TestLastPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := []byte{0, 0, 0, 0x9D, 0x01, 0x2A, 160, 0, 96, 0}
		var m *film
		begun := time.Now()
		m = newFilm("robot", "c1", func() {
			m.add(&frame{data: key, key: true, at: begun.Add(time.Millisecond), looked: begun})
			time.AfterFunc(100*time.Millisecond, func() { m.add(&frame{data: key, key: true, at: time.Now(), looked: time.Now()}) })
		})
		m.add(&frame{data: key, key: true, at: begun, looked: begun})
		time.Sleep(time.Second)
		m.awaitLast()
		if n := m.web.Frames(); n != 3 {
			t.Errorf("it ends with picture %d of 3", n)
		}
	})
}
