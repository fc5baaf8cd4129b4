package screen

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/jezek/xgb/damage"
	"github.com/jezek/xgb/randr"
	"github.com/jezek/xgb/xfixes"
	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// Screen reads the pixels and the layout of an X screen. It is the
// platform.Grabber of the capture bus, which alone calls it.
type Screen struct {
	c      *wire.Conn
	format pixelFormat
	randr  bool          // monitors can be asked for
	cursor bool          // the pointer's image can be asked for
	damage damage.Damage // what the server collects it in; 0 if it cannot tell
	region xfixes.Region

	fetching chan struct{}      // cap 1: taken by whoever fetches damage
	wake     chan struct{}      // cap 1: damage or a new layout was announced
	out      chan platform.Rect // what Damage returns; nil if the server cannot tell
	stop     chan struct{}      // closed by Close
	end      func()             // removes the hook
	pump     sync.Once
	closed   sync.Once

	shm *shared // only Grab and Close touch it

	// The pointer as Grab drew it last; only Grab and Drawn touch it.
	drawnAt    platform.Rect
	drawnImage uint32

	mu     sync.Mutex // above what follows
	layout platform.Layout
	heard  uint64 // how often something said that the layout may be another
	read   uint64 // how often it had been said when layout was read
	root   platform.Rect
	// The changes since Changed, and since Damage, last told.
	polled, streamed changes
}

// changes are areas that changed, and whether the layout did.
type changes struct {
	areas  []platform.Rect
	layout bool
}

// maxAreas bounds the areas kept apart; more become the one around them.
const maxAreas = 32

func (c *changes) add(areas []platform.Rect) {
	c.areas = append(c.areas, areas...)
	if len(c.areas) <= maxAreas {
		return
	}
	var all platform.Rect
	for _, a := range c.areas {
		all = all.Union(a)
	}
	c.areas = append(c.areas[:0], all)
}

var _ platform.Grabber = (*Screen)(nil)

// New prepares reading c's screen. An error is a *platform.MissingError,
// platform.ErrLost, or that of ctx.
func New(ctx context.Context, c *wire.Conn) (*Screen, error) {
	s := &Screen{c: c, fetching: make(chan struct{}, 1), wake: make(chan struct{}, 1), stop: make(chan struct{}), heard: 1}
	// The first epoch is later than any of an earlier connection, so that they never
	// repeat, and small enough for every JSON reader.
	s.layout.Epoch = uint64(time.Now().UnixMicro())
	var err error
	if s.format, err = formatOf(c); err != nil {
		return nil, err
	}
	if s.randr, err = s.has(ctx, "RANDR"); err != nil {
		return nil, err
	}
	if s.cursor, err = s.has(ctx, "XFIXES"); err != nil {
		return nil, err
	}
	hasDamage, err := s.has(ctx, "DAMAGE")
	if err != nil {
		return nil, err
	}
	if s.shm, err = newShared(ctx, c); err != nil {
		return nil, err
	}
	s.listen(ctx)
	if hasDamage && s.cursor { // regions are XFIXES'
		if err := s.watchDamage(ctx); err != nil {
			s.end()
			return nil, err
		}
	}
	if err := c.Listen(ctx, xproto.EventMaskStructureNotify|xproto.EventMaskPropertyChange); err != nil {
		s.end()
		return nil, err
	}
	if _, err := s.Layout(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// has asks for an extension and tells the server the version that is spoken here,
// which has to come before its other requests.
func (s *Screen) has(ctx context.Context, name string) (bool, error) {
	e, err := s.c.Extension(ctx, name)
	if err != nil || !e.Present {
		return false, err
	}
	ok := true
	err = s.c.Do(ctx, func() error {
		switch name {
		case "RANDR":
			r, err := randr.QueryVersion(s.c.X, 1, 5).Reply()
			if err == nil {
				ok = r.MajorVersion > 1 || r.MinorVersion >= 5
			}
			return err
		case "XFIXES":
			_, err := xfixes.QueryVersion(s.c.X, 5, 0).Reply()
			return err
		}
		_, err := damage.QueryVersion(s.c.X, 1, 1).Reply()
		return err
	})
	return ok, err
}

// listen notes announcements where they are read.
func (s *Screen) listen(ctx context.Context) {
	damageEvent, randrEvent := byte(0), byte(0)
	if e, err := s.c.Extension(ctx, "DAMAGE"); err == nil && e.Present {
		damageEvent = e.FirstEvent
	}
	if s.randr {
		e, _ := s.c.Extension(ctx, "RANDR")
		randrEvent = e.FirstEvent
		const all = randr.NotifyMaskScreenChange | randr.NotifyMaskCrtcChange | randr.NotifyMaskOutputChange
		randr.SelectInput(s.c.X, s.c.Root(), all)
	}
	isScale := func(e wire.Event) bool {
		return e.Code == xproto.PropertyNotify &&
			xproto.PropertyNotifyEventNew(e.Data).(xproto.PropertyNotifyEvent).Atom == xproto.AtomResourceManager
	}
	s.end = s.c.Hook(func(e wire.Event) {
		switch {
		case damageEvent != 0 && e.Code == damageEvent:
		case randrEvent != 0 && (e.Code == randrEvent || e.Code == randrEvent+1),
			e.Code == xproto.ConfigureNotify && e.Window() == s.c.Root(), isScale(e):
			s.doubt()
		default:
			return
		}
		select {
		case s.wake <- struct{}{}:
		default:
		}
	})
}

// watchDamage has the server collect what changes. It announces only that there
// is something, once until it is fetched, so a busy screen that nobody looks at
// costs nothing.
func (s *Screen) watchDamage(ctx context.Context) error {
	return s.c.Do(ctx, func() error {
		d, err := damage.NewDamageId(s.c.X)
		if err != nil {
			return err
		}
		r, err := xfixes.NewRegionId(s.c.X)
		if err != nil {
			return err
		}
		if err := xfixes.CreateRegionChecked(s.c.X, r, nil).Check(); err != nil {
			return err
		}
		if err := damage.CreateChecked(s.c.X, d, xproto.Drawable(s.c.Root()), damage.ReportLevelNonEmpty).Check(); err != nil {
			return err
		}
		s.damage, s.region = d, r
		s.out = make(chan platform.Rect)
		return nil
	})
}

// Layout returns the displays as they are now. RandR's monitors are what a person
// sees as one screen: outputs, or parts and groups of them that the user defined.
func (s *Screen) Layout(ctx context.Context) (platform.Layout, error) {
	if err := s.c.Sync(ctx); err != nil { // announcements made before the call have arrived
		return platform.Layout{}, err
	}
	return s.known(ctx)
}

// doubt says that the layout may be another.
func (s *Screen) doubt() {
	s.mu.Lock()
	s.heard++
	s.mu.Unlock()
}

// Known returns the layout as it was when the server last answered: what it announced
// before has arrived by then.
func (s *Screen) Known(ctx context.Context) (platform.Layout, error) { return s.known(ctx) }

// known returns the layout by the announcements that have arrived. It counts as read
// only once it is: the bus and who delivers damage ask side by side, and neither may
// be given the old one while the other still reads.
func (s *Screen) known(ctx context.Context) (platform.Layout, error) {
	for {
		s.mu.Lock()
		heard := s.heard
		if s.read == heard {
			defer s.mu.Unlock()
			return s.layout, nil
		}
		s.mu.Unlock()
		root, displays, err := s.readLayout(ctx)
		if err != nil {
			return platform.Layout{}, err
		}
		s.mu.Lock()
		if s.read < heard { // nobody was quicker
			s.take(root, displays)
			s.read = heard
		}
		s.mu.Unlock()
	}
}

// take makes what was read the layout; s.mu is held.
func (s *Screen) take(root platform.Rect, displays []platform.Display) {
	s.root = root
	if !sameDisplays(displays, s.layout.Displays) {
		changed := s.layout.Displays != nil
		s.polled.layout, s.streamed.layout = changed, changed
		s.layout = platform.Layout{Epoch: s.layout.Epoch + 1, Displays: displays}
	}
}

func sameDisplays(a, b []platform.Display) bool {
	if len(a) != len(b) || b == nil {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (s *Screen) readLayout(ctx context.Context) (root platform.Rect, displays []platform.Display, err error) {
	if root, err = rootArea(ctx, s.c); err != nil {
		return root, nil, err
	}
	scale := s.scale(ctx)
	if s.randr {
		r, err := wire.Ask(ctx, s.c, func() (*randr.GetMonitorsReply, error) { return randr.GetMonitors(s.c.X, s.c.Root(), true).Reply() })
		if err != nil {
			return root, nil, err
		}
		for i, m := range r.Monitors {
			if m.Width == 0 || m.Height == 0 {
				continue
			}
			name, err := s.c.AtomName(ctx, m.Name)
			if err != nil || name == "" || len(name) > 256 {
				name = "display-" + strconv.Itoa(i+1)
			}
			displays = append(displays, platform.Display{ID: name, Name: name, Primary: m.Primary, Scale: scale,
				Bounds: platform.Rect{X: int(m.X), Y: int(m.Y), Width: int(m.Width), Height: int(m.Height)}})
		}
	}
	if len(displays) == 0 {
		displays = []platform.Display{asDisplay(root, scale)}
	}
	primary := false
	for _, d := range displays {
		primary = primary || d.Primary
	}
	displays[0].Primary = displays[0].Primary || !primary // somebody has to be it
	return root, displays, nil
}

func rootArea(ctx context.Context, c *wire.Conn) (platform.Rect, error) {
	geo, err := wire.Ask(ctx, c, func() (*xproto.GetGeometryReply, error) {
		return xproto.GetGeometry(c.X, xproto.Drawable(c.Root())).Reply()
	})
	if err != nil {
		return platform.Rect{}, err
	}
	return platform.Rect{Width: int(geo.Width), Height: int(geo.Height)}, nil
}

// asDisplay is the whole desktop as one display, where nothing tells of several.
func asDisplay(root platform.Rect, scale float64) platform.Display {
	return platform.Display{ID: "screen", Name: "screen", Bounds: root, Scale: scale}
}

// scale is what the session enlarges things by. X has no notion of it; desktops
// leave it in the resources as the density of fonts, 96 being unscaled.
func (s *Screen) scale(ctx context.Context) float64 {
	r, err := wire.Ask(ctx, s.c, func() (*xproto.GetPropertyReply, error) {
		return xproto.GetProperty(s.c.X, false, s.c.Root(), xproto.AtomResourceManager, xproto.AtomString, 0, 16<<10).Reply()
	})
	if err != nil {
		return 1
	}
	for line := range bytes.Lines(r.Value) {
		if v, ok := bytes.CutPrefix(line, []byte("Xft.dpi:")); ok {
			if dpi, err := strconv.ParseFloat(string(bytes.TrimSpace(v)), 64); err == nil && dpi >= 48 && dpi <= 960 {
				return math.Round(dpi/96*100) / 100
			}
		}
	}
	return 1
}

// Damage reports areas in which something was painted, and the empty Rect for a
// new layout. While nobody receives, nothing is asked of the server.
func (s *Screen) Damage() <-chan platform.Rect {
	if s.out != nil {
		s.pump.Do(func() { go s.deliver() })
	}
	return s.out
}

// deliver ends with Close and with the connection, which end its requests, too.
func (s *Screen) deliver() {
	defer close(s.out) // tells receivers
	ctx := context.Background()
	for {
		select {
		case <-s.wake:
		case <-s.stop:
			return
		case <-s.c.Lost():
			return
		}
		if s.fetch(ctx) != nil {
			continue
		}
		s.mu.Lock()
		told := s.streamed
		s.streamed = changes{}
		s.mu.Unlock()
		if told.layout {
			told.areas = append([]platform.Rect{{}}, told.areas...)
		}
		for _, a := range told.areas {
			select {
			case s.out <- a:
			case <-s.stop:
				return
			case <-s.c.Lost():
				return
			}
		}
	}
}

// Changed returns the areas that were painted since it was last called, up to the
// moment of this call, and whether the layout changed. It and Damage each tell
// everything.
func (s *Screen) Changed(ctx context.Context) (areas []platform.Rect, layout bool, err error) {
	if s.damage == 0 {
		return nil, false, errNoDamage
	}
	if err := s.fetch(ctx); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	told := s.polled
	s.polled = changes{}
	return told.areas, told.layout, nil
}

var errNoDamage = errors.New("x11: this server does not tell what changes")

// fetch takes what the server collected, and the layout if that is a new one.
func (s *Screen) fetch(ctx context.Context) error {
	select {
	case s.fetching <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	// An answer that a caller has given up waiting for is kept for the next. The turn is given back
	// by what was begun, however early the caller gave up.
	done := make(chan error, 1)
	go func() {
		defer func() { <-s.fetching }()
		done <- s.c.Do(context.WithoutCancel(ctx), s.fetchRegion)
	}()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := s.known(ctx)
	return err
}

// fetchRegion takes what changed from the server.
func (s *Screen) fetchRegion() error {
	damage.Subtract(s.c.X, s.damage, 0, s.region)
	r, err := xfixes.FetchRegion(s.c.X, s.region).Reply()
	if err != nil {
		return err
	}
	all := r.Rectangles
	if len(all) > maxAreas {
		all = []xproto.Rectangle{r.Extents}
	}
	areas := make([]platform.Rect, len(all))
	for i, a := range all {
		areas[i] = platform.Rect{X: int(a.X), Y: int(a.Y), Width: int(a.Width), Height: int(a.Height)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.polled.add(areas)
	s.streamed.add(areas)
	return nil
}

// Close ends what New began; the connection stays. Idempotent.
func (s *Screen) Close() error {
	s.closed.Do(func() {
		close(s.stop)
		s.end()
		s.shm.close()
		if s.damage != 0 {
			damage.Destroy(s.c.X, s.damage)
			xfixes.DestroyRegion(s.c.X, s.region)
		}
	})
	return nil
}
