//go:build linux

package wayland

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// Person tells when a person uses the mouse or the keyboard. No protocol shows a
// program the events of others, but two say that there were some:
//
// The seat's activity. The compositor says when nothing was done on the seat for a moment, and when
// something is again. Requests of this program are answered on the same connection, in order:
// activity that begins while nothing of it is under way is somebody else's. And when the seat does
// not come to rest after what this program did last, somebody else keeps it going; so this program
// rests now and then while it works.
//
// The keyboard's map. The compositor tells everybody the map of the keyboard that
// was used last. This program's is known by its name: another one was pressed when
// another map comes, at once and also between this program's own keys.
//
// Programs that make input by themselves (wtype, ydotool) count as persons.
type Person struct {
	c    *Conn
	sway *sway // nil: the stop keys cannot be had, nor whether a film is playing
	seat *object

	start func() error // asks for the seat's activity; sets idling
	wake  chan struct{}
	ended context.CancelFunc
	//lint:ignore containedctx the life of the watch
	over context.Context
	runs sync.WaitGroup

	mu       sync.Mutex // above what follows
	watchers []*watcher
	idling   *object
	stopIdle uint16 // its last request
	keyboard *object
	maps     int       // how many maps it told
	has      bool      // the seat has a keyboard
	flight   int       // this program's events that were not answered yet
	gen      uint64    // counts them
	idle     bool      // the seat is at rest
	armed    bool      // it came to rest since it last seemed that it never does
	active   bool      // a person is at it, and the seat did not come to rest since
	since    time.Time // since when this program works without a rest; zero: it rested
	last     time.Time // the last time a person did something
	touches  uint64
	resting  []chan struct{}
	timer    *time.Timer
}

type watcher struct {
	touched func(time.Time)
}

var _ platform.Person = (*Person)(nil)

const (
	// rest is how long nothing is done until the seat counts as at rest: longer than
	// the time between two events of a mouse that is moved.
	rest = 20 * time.Millisecond
	// slack is added before it is held against a person that the seat does not rest.
	slack = 5 * time.Millisecond
	// busy is how long this program works at most without a rest, so that a person's
	// mouse is noticed in 100 ms also then.
	busy = 70 * time.Millisecond
	// again is how often a person who does not pause is told of.
	again = 250 * time.Millisecond
)

// NewPerson prepares watching over c, the connection that the events of this
// program go over. An error is a *platform.MissingError that names the protocols.
func NewPerson(ctx context.Context, c *Conn, getenv func(string) string, runtime string) (*Person, error) {
	p := &Person{c: c, wake: make(chan struct{}, 1)}
	manager, kind, opcode, stop := (*object)(nil), extIdle, uint16(extIdleGet), uint16(extIdleDestroy)
	seatFirst := false
	var err error
	switch {
	case c.Offers(wlSeat.name) == 0:
		return nil, missing("tells when a person uses the mouse or the keyboard", wlSeat.name)
	case c.Offers(extIdleManager.name) > 0:
		if manager, err = c.bindOne(extIdleManager, nil); err == nil && manager.version >= 2 {
			opcode = extIdleGetInput
		}
	case c.Offers(kdeIdleManager.name) > 0:
		manager, err = c.bindOne(kdeIdleManager, nil)
		kind, opcode, stop, seatFirst = kdeIdle, kdeIdleGet, kdeIdleRelease, true
	default:
		return nil, missing("tells when a person uses the mouse or the keyboard", extIdleManager.name, kdeIdleManager.name)
	}
	if err != nil {
		return nil, err
	}
	if p.seat, err = c.bindOne(wlSeat, p.capabilities); err != nil {
		return nil, err
	}
	p.start = func() error {
		args := []any{uint32(rest / time.Millisecond), p.seat.id}
		if seatFirst {
			args[0], args[1] = args[1], args[0]
		}
		o, err := c.create(manager.id, opcode, kind, manager.version, p.activity, args...)
		p.idling, p.stopIdle = o, stop
		return err
	}
	p.sway = findSway(ctx, getenv, runtime)
	if err := c.Sync(ctx); err != nil {
		return nil, err
	}
	p.over, p.ended = context.WithCancel(context.Background())
	p.runs.Go(p.run)
	return p, nil
}

// capabilities hears what the seat has.
func (p *Person) capabilities(m *message) {
	if m.opcode != seatCapabilities {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.has = m.uint()&seatHasKeyboard != 0
	p.listenLocked()
}

// listenLocked has the keyboard's maps told while somebody watches.
func (p *Person) listenLocked() {
	want := p.has && len(p.watchers) > 0
	switch {
	case want && p.keyboard == nil:
		p.maps = 0
		p.keyboard, _ = p.c.create(p.seat.id, seatGetKeyboard, wlKeyboard, p.seat.version, p.mapped)
	case !want && p.keyboard != nil:
		if p.keyboard.version >= 3 {
			p.c.destroy(p.keyboard, keyboardRelease)
		}
		p.keyboard = nil
	}
}

// mapped hears of the map of the keyboard that was used last. The first one says
// only which that was.
func (p *Person) mapped(m *message) {
	if m.opcode != keyboardKeymap {
		return
	}
	m.uint()
	f, size := m.fd(), m.uint()
	if f < 0 {
		return
	}
	// The name is in the first line but one.
	head := make([]byte, min(size, 256))
	n, _ := unix.Pread(f, head, 0)
	_ = unix.Close(f)
	ours := n > 0 && bytes.Contains(head[:n], []byte(`"`+mapName+`"`))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keyboard == nil || m.object != p.keyboard.id {
		return // one that was given up: what it still tells is nobody's second map
	}
	p.maps++
	if p.maps > 1 && !ours {
		p.touchLocked()
	}
}

// activity hears that the seat came to rest, or did not stay there.
func (p *Person) activity(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.idling == nil || m.object != p.idling.id {
		return // of a watch that ended
	}
	if m.opcode == idleIdled {
		p.idle, p.armed, p.active, p.since = true, true, false, time.Time{}
		p.restedLocked()
		return
	}
	p.idle = false
	if p.flight == 0 {
		p.active = true
		p.touchLocked()
	}
}

func (p *Person) restedLocked() {
	for _, ch := range p.resting {
		close(ch)
	}
	p.resting = nil
}

func (p *Person) touchLocked() {
	p.last = time.Now()
	p.touches++
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// run tells those who watch, who may take their time.
func (p *Person) run() {
	tick := time.NewTicker(again)
	tick.Stop()
	defer tick.Stop()
	for {
		select {
		case <-p.wake:
			tick.Reset(again)
		case <-tick.C:
			p.mu.Lock()
			if p.active {
				p.last = time.Now()
			}
			on := p.active
			p.mu.Unlock()
			if !on {
				tick.Stop()
				continue
			}
			// A film keeps the seat from resting, too.
			if p.sway != nil && p.sway.inhibited(p.over) {
				p.mu.Lock()
				p.active, p.armed = false, false
				p.mu.Unlock()
				continue
			}
		case <-p.over.Done():
			return
		case <-p.c.Lost():
			return
		}
		p.mu.Lock()
		all, at := slices.Clone(p.watchers), p.last
		p.mu.Unlock()
		for _, w := range all {
			w.touched(at)
		}
	}
}

// begin says that events of this program are sent now; answered is to be called
// where the connection is read, when the compositor has done them. P may be nil.
func (p *Person) begin() (answered func()) {
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight++
	p.gen++
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return p.answered
}

func (p *Person) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flight--; p.flight > 0 || p.idling == nil || p.over.Err() != nil {
		return
	}
	gen := p.gen
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(rest+slack, func() { p.verify(gen) })
}

// verify looks whether the seat came to rest after what this program did last. A
// compositor that answers twice after the time is over has said so if it did.
func (p *Person) verify(gen uint64) {
	for range 2 {
		p.mu.Lock()
		done := gen != p.gen || p.idle
		p.mu.Unlock()
		if done || p.c.Sync(p.over) != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if gen != p.gen || p.idle || p.idling == nil {
		return
	}
	if p.armed {
		p.armed, p.active = false, true
		p.touchLocked()
	}
	p.since = time.Time{}
	p.restedLocked()
}

// breathe lets the seat rest if this program has worked for long, so that a
// person's mouse shows.
func (p *Person) breathe(ctx context.Context) error {
	if p == nil {
		return ctx.Err()
	}
	p.mu.Lock()
	if p.idling == nil || !p.armed || p.idle || p.flight > 0 || p.since.IsZero() || time.Since(p.since) < busy {
		p.mu.Unlock()
		return ctx.Err()
	}
	rested := make(chan struct{})
	p.resting = append(p.resting, rested)
	p.mu.Unlock()
	return p.c.wait(ctx, rested)
}

// count tells how often a person did something.
func (p *Person) count() uint64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.touches
}

// watched reports whether somebody watches: who does not is told of nothing.
func (p *Person) watched() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.watchers) > 0
}

// Watch begins at once and ends with ctx. The stop keys are heard under Sway only.
func (p *Person) Watch(ctx context.Context, hotkey string, touched func(at time.Time), stop func()) error {
	var keys string
	if hotkey != "" {
		var err error
		if keys, err = swayKeys(hotkey); err != nil {
			return err
		}
	}
	select {
	case <-p.c.Lost():
		return platform.ErrLost
	default:
	}
	w := &watcher{touched: touched}
	p.mu.Lock()
	p.watchers = append(p.watchers, w)
	p.listenLocked()
	var err error
	if p.idling == nil {
		p.idle, p.armed, p.active = false, false, false
		err = p.start()
	}
	p.mu.Unlock()
	context.AfterFunc(ctx, func() { p.unwatch(w) })
	if err != nil {
		return err
	}
	if p.sway != nil && keys != "" {
		if err := p.sway.bind(ctx, keys, stop); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return p.c.Sync(ctx) // from here on nothing is missed
}

func (p *Person) unwatch(w *watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers = slices.DeleteFunc(p.watchers, func(o *watcher) bool { return o == w })
	p.listenLocked()
	if len(p.watchers) == 0 && p.idling != nil {
		p.c.destroy(p.idling, p.stopIdle)
		p.idling = nil
		p.restedLocked()
	}
}

// Close ends what NewPerson began; the connection stays.
func (p *Person) Close() error {
	p.ended()
	p.mu.Lock()
	if p.timer != nil {
		p.timer.Stop()
	}
	p.mu.Unlock()
	p.runs.Wait()
	return nil
}

// swayKeys writes names of keys with a plus between as Sway has them.
func swayKeys(s string) (string, error) {
	short := map[string]string{
		"ctrl": "control", "esc": "escape", "win": "meta", "super": "meta", "cmd": "meta", "return": "enter", "del": "delete",
	}
	mods := map[string]string{"control": "Ctrl", "alt": "Mod1", "shift": "Shift", "meta": "Mod4", "altgr": "Mod5"}
	var keys []string
	all := strings.Split(s, "+")
	for i, name := range all {
		name = strings.ToLower(strings.TrimSpace(name))
		if long := short[name]; long != "" {
			name = long
		}
		if mod := mods[name]; mod != "" && i < len(all)-1 {
			keys = append(keys, mod)
			continue
		}
		k, _, err := newKeymap().keyOf(name)
		if err != nil || keysOf[k.code] == nil {
			return "", errors.Join(fmt.Errorf("wayland: %.60q are no keys to stop with", s), err)
		}
		keys = append(keys, keysOf[k.code][0])
	}
	return strings.Join(keys, "+"), nil
}
