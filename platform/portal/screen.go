package portal

import (
	"context"
	"errors"
	"fmt"
	"image"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// Displays tells how the displays lie; places are those of the layout's displays.
type Displays func(ctx context.Context) (platform.Layout, []Place, error)

// Screen reads the pixels by the Screenshot portal, which makes an image of
// everything in a file each time: about a tenth of a second, where the capture
// protocols need a few milliseconds. The pointer is never in it. It is the
// platform.Grabber of the capture bus.
type Screen struct {
	p        *Portal
	displays Displays

	//lint:ignore containedctx the life of the screen
	over   context.Context // ends with Close
	finish context.CancelFunc
	pump   sync.Once
	pumps  sync.WaitGroup
	out    chan platform.Rect
	no     refusal

	fetches sync.WaitGroup
}

var _ platform.Grabber = (*Screen)(nil)

// lookAgain is how often it is looked whether something changed while somebody
// waits for that: nobody tells, and each look is a file.
const lookAgain = time.Second

// NewScreen prepares it; an error is a *platform.MissingError or that of ctx.
func NewScreen(ctx context.Context, p *Portal, displays Displays) (*Screen, error) {
	if _, err := p.has(ctx, screenshot, "version"); err != nil {
		return nil, err
	}
	s := &Screen{p: p, displays: displays, out: make(chan platform.Rect)}
	s.over, s.finish = context.WithCancel(context.Background())
	return s, nil
}

// Layout returns the displays.
func (s *Screen) Layout(ctx context.Context) (platform.Layout, error) {
	l, _, err := s.displays(ctx)
	return l, err
}

// Grab has an image made and copies area out of it.
func (s *Screen) Grab(ctx context.Context, area platform.Rect, _ bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return fmt.Errorf("portal: %d bytes do not hold %d x %d pixels", len(pix), area.Width, area.Height)
	}
	if err := errors.Join(ctx.Err(), s.no.still()); err != nil {
		return err
	}
	_, places, err := s.displays(ctx)
	if err != nil {
		return err
	}
	// The image is fetched, and its file removed, also when the caller has gone: it
	// may be made already.
	type answer struct {
		img image.Image
		err error
	}
	done := make(chan answer, 1)
	s.fetches.Go(func() {
		begun := time.Now()
		ctx, cancel := context.WithTimeout(s.over, fetchWithin)
		defer cancel()
		results, err := s.p.ask(ctx, screenshot+".Screenshot", options{"interactive": dbus.MakeVariant(false), "modal": dbus.MakeVariant(false)},
			"")
		if err != nil {
			done <- answer{nil, s.no.note(err, "take screenshots")}
			return
		}
		uri, _ := results["uri"].Value().(string)
		img, err := load(uri, begun)
		done <- answer{img, err}
	})
	select {
	case a := <-done:
		if a.err != nil {
			return a.err
		}
		unpack(pix, area, a.img, places)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetchWithin bounds one image, the person's answer included.
const fetchWithin = 2 * time.Minute

// Damage says once a second that anything may have changed.
func (s *Screen) Damage() <-chan platform.Rect {
	s.pump.Do(func() {
		s.pumps.Go(func() {
			defer close(s.out)
			tick := time.NewTicker(lookAgain)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
				case <-s.p.Lost():
					return
				case <-s.over.Done():
					return
				}
				l, err := s.Layout(s.over)
				if errors.Is(err, platform.ErrLost) {
					return
				}
				select {
				case s.out <- l.Whole():
				case <-s.p.Lost():
					return
				case <-s.over.Done():
					return
				}
			}
		})
	})
	return s.out
}

// Close ends what NewScreen began; the portal stays. Idempotent.
func (s *Screen) Close() error {
	s.finish()
	s.pump.Do(func() { close(s.out) })
	s.pumps.Wait()
	s.fetches.Wait()
	return nil
}

// refusal keeps a person's no for a while: an agent that tries again would have the
// desktop ask again.
type refusal struct {
	mu    sync.Mutex // above what follows
	what  error
	until time.Time
}

const noMeansNo = 5 * time.Minute

func (r *refusal) still() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) {
		return r.what
	}
	return nil
}

// note turns a person's no into what callers are told.
func (r *refusal) note(err error, what string) error {
	if !errors.Is(err, errRefused) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = time.Now().Add(noMeansNo)
	r.what = &platform.MissingError{Permission: true, What: "The person did not let this program " + what + " when the desktop asked.",
		Fix: "Allow it in the dialog of the desktop, which asks again after five minutes, or in its settings for applications."}
	return r.what
}
