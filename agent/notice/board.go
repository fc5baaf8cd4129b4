package notice

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// linger is how long a use stays shown after its last call ended.
	linger = 3 * time.Second
	// rest is how long after its last call a use is still shown as running: calls that
	// follow each other are one use, and need no word for each.
	rest = time.Second
	// calm is the least time between two changes of what is shown.
	calm = 200 * time.Millisecond
	// alive is how often the file's date is renewed, and stale when it counts as that
	// of a node that is gone.
	alive = 5 * time.Second
	stale = 30 * time.Second
	// maxRows bounds what is shown at once.
	maxRows = 32
)

// Node is what the board asks about the node itself.
type Node struct {
	Connected   bool
	Gateway     string
	Stopped     bool // by the person, at the device
	SiteStopped bool // at the gateway
}

// Options of New.
type Options struct {
	Path string      // required: where the status file is written
	Node func() Node // required; must not block
	// Notifier shows notices; nil: none is shown.
	Notifier platform.Notifier
	// Stop is called when the person presses the notice's button; required with
	// Notifier.
	Stop func(reason string)
	// HotKey names the stop keys for people; empty: there are none.
	HotKey string
	// Yes and No name the keys that answer a question; required with Ask.
	Yes, No string
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default: discards
}

// Board knows what is in use. All methods are safe for concurrent use.
type Board struct {
	opts Options
	wake chan struct{}
	// hurry cuts the calm between two changes short: somebody waits to be shown.
	hurry chan struct{}

	mu    sync.Mutex
	begun uint64        // how many times Begin was told of what was not shown
	shown uint64        // how many of them what is shown holds
	news  chan struct{} // closed and replaced when shown grows
	calls map[capabilities.CallID]*use
	rows  map[row]*use
	ask   asked

	asking chan struct{} // what is asked has changed
}

// row is one line of the board: who uses what.
type row struct {
	who  capabilities.PrincipalID
	what string // list of uses
}

// use is a row with its calls.
type use struct {
	row
	lane    capabilities.LaneID
	tool    capabilities.ToolID // the latest
	since   time.Time
	last    time.Time // when its latest call ended
	running int
	calls   uint64
	listed  bool // it is among what was last made to be shown, as running
}

// keeps reports whether the use goes on at now, though no call runs. Watching and filming have a
// beginning and an end of their own.
func (u *use) keeps(now time.Time) bool {
	return u.what != film && !isLive(u.what) && now.Before(u.last.Add(rest))
}

// New makes a board; it shows nothing before Run.
func New(o Options) *Board {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Board{
		opts: o, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), news: make(chan struct{}), calls: map[capabilities.CallID]*use{},
		rows: map[row]*use{}, ask: asked{gone: map[[32]byte]bool{}}, asking: make(chan struct{}, 1),
	}
}

// inputKey is the key of who moves the mouse and types, which is not watching.
const inputKey = "privileged.input.inject"

// filmKey is the key of who keeps what the screen shows, and film what is said of it.
const (
	filmKey = "data.capture.screen"
	film    = "your screen, as a film"
)

// Begin shows a call that was admitted and is about to run, until End.
func (b *Board) Begin(t *wire.Ticket) {
	who := cmp.Or(policy.PrincipalIn(t.Envelope), "somebody")
	r := row{who, list(uses(t.Grants, name(string(t.Tool))))}
	if t.Tool.Family() == "live" && len(t.Grants) == 0 { // a word to what is shown already
		return
	}
	switch {
	case slices.Contains(t.Grants, filmKey):
		r.what = film
	case t.Tool.Family() == "live" && !slices.Contains(t.Grants, inputKey):
		r.what += live
	}
	now := b.opts.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.rows[r]
	if u == nil {
		u = &use{row: r, since: now}
		b.rows[r] = u
	}
	if !u.listed || u.lane != t.Lane || isLive(r.what) {
		b.begun++
		b.changed()
	}
	u.lane, u.tool = t.Lane, t.Tool
	u.running++
	u.calls++
	b.calls[t.Call] = u
}

// AwaitShown waits until every call that Begin was told of is shown: what watches or
// listens does not begin before a person can know. It needs Run, and ends with ctx.
func (b *Board) AwaitShown(ctx context.Context) error {
	b.mu.Lock()
	want := b.begun
	b.mu.Unlock()
	for {
		b.mu.Lock()
		shown, news := b.shown, b.news
		b.mu.Unlock()
		if shown >= want {
			return nil
		}
		b.changed()
		select {
		case b.hurry <- struct{}{}:
		default:
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// written notes that what is shown holds so many calls.
func (b *Board) written(calls uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shown = calls
	close(b.news)
	b.news = make(chan struct{})
}

// End takes a call away. One that Begin was not told of is no matter.
func (b *Board) End(call capabilities.CallID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u := b.calls[call]
	if u == nil {
		return
	}
	delete(b.calls, call)
	u.last = b.opts.Now()
	u.running--
	if u.running == 0 || isLive(u.what) {
		b.changed()
	}
}

// Turned says that what Options.Node returns has changed.
func (b *Board) Turned() { b.changed() }

func (b *Board) changed() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// present returns what is shown now, longest in use first, and when a row goes next
// (zero: none does by itself).
func (b *Board) present() (rows []use, next time.Time, calls uint64) {
	now := b.opts.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, u := range b.rows {
		shown := *u
		if u.running == 0 && u.keeps(now) {
			shown.running = 1
		}
		u.listed = shown.running > 0
		if u.running == 0 {
			end := u.last.Add(linger)
			if u.listed {
				end = u.last.Add(rest)
			}
			if !now.Before(end) {
				delete(b.rows, r)
				continue
			}
			if next.IsZero() || end.Before(next) {
				next = end
			}
		}
		rows = append(rows, shown)
	}
	sort.Slice(rows, func(i, j int) bool {
		a, b := &rows[i], &rows[j]
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.who, b.who), cmp.Compare(a.what, b.what)) < 0
	})
	return rows, next, b.begun
}

// Run shows what is in use until ctx ends, and then that the node is gone.
func (b *Board) Run(ctx context.Context) error {
	notices := newShower(b)
	defer notices.close()
	shown := make(chan struct{})
	showCtx, stopShowing := context.WithCancel(ctx)
	go func() { defer close(shown); notices.run(showCtx) }()
	defer func() { stopShowing(); <-shown }()

	beat := time.NewTicker(alive)
	defer beat.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var last Status
	for {
		rows, next, calls := b.present()
		now := b.opts.Now()
		var failed error
		if s := b.status(rows); !s.same(last) {
			last = s
			if failed = s.write(b.opts.Path); failed != nil {
				b.opts.Log.Warn("notice.file", "err", failed)
				last = Status{} // to be tried again with the next change
			}
			notices.show(s)
		}
		if failed == nil {
			b.written(calls)
		}
		// A change right after this one waits a moment, so that many short calls are
		// not as many writes.
		pause.Reset(calm)
		select {
		case <-pause.C:
		case <-b.hurry:
		case <-ctx.Done():
			return b.gone()
		}
		var due <-chan time.Time
		if !next.IsZero() {
			pause.Reset(max(next.Sub(now), 0))
			due = pause.C
		}
		select {
		case <-b.wake:
		case <-due:
		case <-beat.C:
			touch(b.opts.Path, b.opts.Now())
		case <-ctx.Done():
			return b.gone()
		}
	}
}

// gone leaves a file that says so: a node that is not there uses nothing.
func (b *Board) gone() error {
	s := Status{Version: 1, State: StateGone, Text: "The node is not running.", At: b.opts.Now().UTC(), Uses: []Use{}}
	if err := s.write(b.opts.Path); err != nil {
		b.opts.Log.Warn("notice.file", "err", err)
	}
	return nil
}
