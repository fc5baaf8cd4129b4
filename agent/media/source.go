package media

import (
	"context"
	"errors"
	"image"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/vp8"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// least is the time between two frames: 30 a second.
	least = time.Second / 30
	// look is how often is looked for what nobody tells of: the pointer, the lock.
	look = 100 * time.Millisecond
	// calmLook is the same of a screen on which nothing has changed for calmAfter.
	calmLook, calmAfter = 300 * time.Millisecond, 2 * time.Second
	// rest is how long a screen is still before it is sharpened.
	rest = 200 * time.Millisecond
	// keyEvery is the least time between two key frames that viewers ask for.
	keyEvery = 300 * time.Millisecond
	// slow is how long a viewer may take for one frame.
	slow = 4 * time.Second
	// silent is how long a viewer of a screen at rest gets nothing: who gets no frame for
	// three seconds takes it for lost, and asks for the whole picture anew.
	silent = 2 * time.Second
	// share is how long those who have a frame wait for those who do not have it yet.
	share = frameShare
)

// source is one screen that somebody watches: one encoder, many viewers.
type source struct {
	h       *Handler
	display string // as calls name it; "" for the main one; of a sensor the outlet's key
	outlet  outlet // of a sensor; of a screen only the codec
	users   int    // sessions; h.mu is above it
	stop    context.CancelFunc

	wake chan struct{} // cap 1: a key frame is wanted, or somebody can take a frame again
	key  atomic.Bool
	held atomic.Bool   // a look was put off, as nobody could take a frame
	end  chan struct{} // closed when it ended
	err  error         // why; good after end

	sending sync.WaitGroup // frames on their way

	mu      sync.Mutex
	viewers map[*viewer]bool
	area    platform.Rect // of the desktop, that the picture shows
}

// viewer is one of those who watch. At most one frame is on its way to it.
type viewer struct {
	peer  *peer
	film  *film // instead of a peer
	bytes atomic.Int64
	shown atomic.Int64 // frames
	slow  atomic.Bool  // it was given up

	mu     sync.Mutex
	busy   bool // a frame is on its way
	missed bool // one went by meanwhile: only a key frame is of use
}

// begin reports whether f is to be sent to it, which finish ends.
func (v *viewer) begin(f *frame) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy || v.missed && !f.key {
		v.missed = true
		return false
	}
	v.busy, v.missed = true, false
	return true
}

// finish reports whether it needs a key frame now.
func (v *viewer) finish() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.busy = false
	return v.missed
}

func (v *viewer) free() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.busy
}

func (s *source) wantKey() {
	s.key.Store(true)
	s.nudge()
}

// nudge has the screen looked at now.
func (s *source) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *source) add(v *viewer) {
	s.mu.Lock()
	s.viewers[v] = true
	s.mu.Unlock()
	s.wantKey()
}

func (s *source) drop(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
}

// shows returns the part of the desktop that the picture shows; none before it is known.
func (s *source) shows() platform.Rect {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.area
}

// watching returns the viewers, whether one of them can take a frame, and what the
// narrowest of the ways of those who can carries.
func (s *source) watching() (all []*viewer, free bool, rate int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rate = mostRate
	for v := range s.viewers {
		all = append(all, v)
		switch {
		case v.film != nil:
			free = true
			rate = min(rate, filmRate)
		case v.free():
			free = true
			rate = min(rate, max(v.peer.rate(), leastRate))
		}
	}
	return all, free, rate
}

// run shows the screen to whoever watches until ctx ends or the screen is gone.
func (s *source) run(ctx context.Context) {
	defer close(s.end)
	ctx, cancel := context.WithCancel(ctx)
	if s.outlet.backend != nil {
		s.err = s.sense(ctx)
	} else {
		s.err = s.follow(ctx)
	}
	cancel()
	s.h.retire(s)
	s.sending.Wait()
}

// scene is the screen as it is encoded now.
type scene struct {
	desk    *platform.Desktop
	area    platform.Rect
	enc     *vp8.Encoder
	last    *platform.Frame // that was encoded; of the encoder until the next is
	coarse  int
	moved   time.Time // when something changed last
	lastKey time.Time
	looked  time.Time // at the screen
	sent    time.Time
	ctl     control
	buf     []byte
}

func (s *source) follow(ctx context.Context) error {
	for {
		sc, err := s.open(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.area = sc.area
		s.mu.Unlock()
		err = s.show(ctx, sc)
		sc.last.Release()
		if !errors.Is(err, errLayout) {
			return err
		}
	}
}

var errLayout = errors.New("media: the displays changed")

// open finds the screen and makes an encoder of its size.
func (s *source) open(ctx context.Context) (*scene, error) {
	d, err := s.h.o.Opener.Open(ctx)
	if err != nil {
		return nil, err
	}
	if d.Screen == nil {
		if m := d.Missing[platform.PartScreen]; m != nil {
			return nil, m
		}
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "This desktop gives no picture.")
	}
	layout, err := d.Screen.Layout(ctx)
	if err != nil {
		return nil, err
	}
	area, ok := boundsOf(layout, s.display)
	if !ok {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "There is no display %.100q.", s.display).
			WithHint("Leave it out for the main one.")
	}
	enc, err := vp8.New(area.Width, area.Height)
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "A screen of %d x %d pixels is too large to be shown live.", area.Width,
			area.Height)
	}
	return &scene{desk: d, area: area, enc: enc, ctl: newControl()}, nil
}

// boundsOf returns a display's area; the main one's for "".
func boundsOf(l platform.Layout, id string) (platform.Rect, bool) {
	for _, d := range l.Displays {
		if id == d.ID || id == "" && d.Primary {
			return d.Bounds, true
		}
	}
	if id == "" && len(l.Displays) > 0 {
		return l.Displays[0].Bounds, true
	}
	return platform.Rect{}, false
}

// show sends what changes. Between two looks at the screen it waits until the last
// frame has left, so the next one is always the newest.
func (s *source) show(ctx context.Context, sc *scene) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news, err := tidings(ctx, sc.desk.Screen, sc.area)
	if err != nil {
		return err
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	calm := false // nothing has changed for a while
	s.key.Store(true)
	for {
		if err := s.next(ctx, sc); err != nil {
			return err
		}
		if now := time.Since(sc.moved) > calmAfter && sc.coarse == 0; now != calm {
			calm = now
			tick.Reset(map[bool]time.Duration{false: look, true: calmLook}[calm])
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case _, ok := <-news.changes:
			if !ok {
				return platform.ErrLost
			}
		case _, ok := <-news.alerts:
			if !ok {
				return platform.ErrLost
			}
		case <-tick.C:
			if reason := s.h.o.Opener.Locked(ctx); reason != "" {
				return capabilities.Errorf(capabilities.CodeSessionLocked, "%s", reason)
			}
		case <-s.wake:
		}
		// From look to look: what a frame cost is part of its time.
		if err := capabilities.Sleep(ctx, least-time.Since(sc.looked)); err != nil {
			return err
		}
	}
}

// told is how a screen tells that there is something to look at; one of the two is nil.
type told struct {
	changes <-chan platform.Rect
	alerts  <-chan struct{}
}

// tidings has the screen tell, until ctx ends. It is looked at with the pointer anyway,
// so nobody has to look at it without, only to tell.
func tidings(ctx context.Context, screen platform.Screen, area platform.Rect) (t told, err error) {
	if a, ok := screen.(platform.Alerter); ok {
		t.alerts, err = a.Alerts(ctx, area)
		return t, err
	}
	t.changes, err = screen.Changes(ctx, area)
	return t, err
}

// next looks at the screen and sends one frame if there is something to tell.
func (s *source) next(ctx context.Context, sc *scene) error {
	// The wish first: who is added after this look at the viewers has one of his own.
	key := s.key.Swap(false)
	defer func() {
		if key {
			s.key.Store(true) // not fulfilled yet
		}
	}()
	s.held.Store(true) // before the look at the viewers: who is done after it says so
	all, free, rate := s.watching()
	if !free {
		return nil
	}
	s.held.Store(false)
	sc.looked = time.Now()
	f, err := sc.desk.Screen.Frame(ctx, sc.area, true)
	if err != nil {
		return err
	}
	defer func() { f.Release() }() // unless it becomes the last one
	if sc.last != nil && f.Epoch != sc.last.Epoch {
		return errLayout
	}
	now := time.Now()
	p := vp8.Params{Quant: sc.ctl.quant, Fine: fineQuant}
	changed := sc.last == nil || f.Seq != sc.last.Seq
	var dirty []image.Rectangle
	if changed {
		dirty = []image.Rectangle{image.Rect(0, 0, sc.area.Width, sc.area.Height)}
		sc.moved = now
	}
	if key && now.Sub(sc.lastKey) >= keyEvery {
		key, p.Key, sc.lastKey = false, true, now
	}
	refining := !changed && !p.Key && sc.coarse > 0 && now.Sub(sc.moved) >= rest
	if refining {
		p.Quant, p.Refine = fineQuant, sc.ctl.refine(rate)
	}
	idle := !changed && !p.Key && !refining
	if idle && (now.Sub(sc.sent) < silent || !slices.ContainsFunc(all, func(v *viewer) bool { return v.film == nil })) {
		return nil
	}
	out, info, err := sc.enc.Encode(sc.buf[:0], f.Pix, f.Stride, dirty, p)
	if err != nil {
		return err
	}
	sc.last, f = f, sc.last // the encoder compares the next with it
	f.Release()
	sc.buf, sc.coarse = out, info.Coarse
	switch {
	case refining:
		sc.ctl.refined(len(out), info.Refined)
		if info.Refined == 0 {
			sc.coarse = 0
			return nil
		}
	case !idle:
		sc.ctl.sent(len(out), rate)
	}
	sc.sent = now
	if !s.send(ctx, all, &frame{data: out, at: sc.last.At, key: info.Key, looked: sc.looked, idle: idle}, rate) {
		sc.buf = nil // somebody reads it still
	}
	return nil
}

// send returns the frame to all who have got the last, and waits a while until it has left; for the
// first of them it waits as long as that takes. A viewer who needs longer gets the next key frame,
// and one who is too slow is let go, so that one bad way holds up nobody else's. It reports whether
// all are done with f.
func (s *source) send(ctx context.Context, all []*viewer, f *frame, rate int) bool {
	left := make(chan struct{}, len(all))
	waiting := 0
	for _, v := range all {
		if v.film != nil { // it is the quickest
			if !f.idle {
				v.film.add(f)
			}
			left <- struct{}{}
			waiting++
			continue
		}
		if v.begin(f) {
			waiting++
			s.sending.Go(func() {
				s.sendTo(ctx, v, f, rate)
				left <- struct{}{}
			})
		}
	}
	if waiting == 0 {
		return true
	}
	enough := time.NewTimer(share)
	defer enough.Stop()
	<-left
	for range waiting - 1 {
		select {
		case <-left:
		case <-enough.C:
			return false
		}
	}
	return true
}

func (s *source) sendTo(ctx context.Context, v *viewer, f *frame, rate int) {
	ctx, cancel := context.WithTimeout(ctx, slow)
	defer cancel()
	sent, err := v.peer.track.send(ctx, f, rate)
	switch {
	case err != nil:
		s.drop(v)
		v.slow.Store(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded))
		v.peer.close()
	case sent:
		v.bytes.Add(int64(len(f.data)))
		v.shown.Add(1)
	}
	if v.finish() {
		s.wantKey()
	} else if s.held.Swap(false) {
		s.nudge()
	}
}
