package desktop

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// Options of New.
type Options struct {
	// Log gets what a person who looks after a device should know. Required.
	Log *slog.Logger
	// Getenv reads the environment that tells which session this is. Default: that
	// of the process.
	Getenv func(name string) string
}

// Opener implements platform.DesktopOpener.
type Opener struct {
	options Options
	lock    *lockWatch
	//lint:ignore containedctx the life of what is opened
	life context.Context // ends with Close
	kill context.CancelFunc

	turn chan struct{} // holds a token while nobody opens or closes
	// The fields below are read and written with the token.
	session *session
	tried   time.Time // the last time something was missing
	closed  bool
}

var _ platform.DesktopOpener = (*Opener)(nil)

// session is one open desktop.
type session struct {
	desk *platform.Desktop
	lost <-chan struct{} // closed when the display server has ended; nil: never
	// better tells whether something that was missing is there now. Nil: no.
	better func(ctx context.Context) bool
	// handled waits until an application has handled the keys it read. Nil: no need.
	handled func(ctx context.Context, pid int) error
	close   func()
}

// betterEvery is how often what was missing is looked for again, at most.
const betterEvery = 10 * time.Second

// openLimit bounds opening a desktop.
const openLimit = time.Minute

var errOpening = &platform.MissingError{What: "The desktop is being opened.", Fix: "Wait a moment."}

// New makes an Opener; it opens nothing yet.
func New(o Options) *Opener {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	op := &Opener{options: o, lock: newLockWatch(o), turn: make(chan struct{}, 1)}
	op.life, op.kill = context.WithCancel(context.Background())
	op.turn <- struct{}{}
	return op
}

// Open returns the desktop, opening it if it is not open, was lost, or can be had more completely
// than before. A caller may have less time than that takes, as those who only ask what is ready do:
// opening goes on without them, for the next one, or it would never end where it is slow.
func (o *Opener) Open(ctx context.Context) (*platform.Desktop, error) {
	select {
	case <-o.turn:
	case <-ctx.Done():
		return nil, later(ctx)
	}
	if s := o.session; s != nil && !s.isLost() && (s.better == nil || time.Since(o.tried) < betterEvery) {
		defer o.giveBack()
		return s.desk, nil
	}
	var d *platform.Desktop
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer o.giveBack()
		ctx, cancel := context.WithTimeout(o.life, openLimit)
		defer cancel()
		d, err = o.renew(ctx)
	}()
	select {
	case <-done:
		return d, err
	case <-ctx.Done():
		return nil, later(ctx)
	}
}

func (o *Opener) giveBack() { o.turn <- struct{}{} }

// later is what somebody is told whose ctx ended before the desktop was open.
func later(ctx context.Context) error {
	if ctx.Err() == context.DeadlineExceeded {
		return errOpening
	}
	return ctx.Err()
}

// renew opens the desktop, unless the one that is open is as good. With the token.
func (o *Opener) renew(ctx context.Context) (*platform.Desktop, error) {
	if s := o.session; s != nil && !s.isLost() {
		o.tried = time.Now()
		if !s.better(ctx) {
			return s.desk, nil
		}
	} else if s != nil {
		o.options.Log.Info("the desktop was lost", "desktop", s.desk.Name)
	}
	o.end()
	if o.closed {
		return nil, platform.ErrLost
	}
	s, err := open(ctx, o.options)
	switch {
	case err != nil && o.life.Err() != nil: // it was closed meanwhile
		return nil, platform.ErrLost
	case err != nil:
		return nil, err
	}
	o.session, o.tried = s, time.Now()
	o.options.Log.Info("the desktop is open", "desktop", s.desk.Name, "missing", len(s.desk.Missing))
	return s.desk, nil
}

func (s *session) isLost() bool {
	select {
	case <-s.lost:
		return true
	default:
		return false
	}
}

func (o *Opener) end() {
	if o.session != nil {
		o.session.close()
		o.session = nil
	}
}

// Locked tells whether the session is locked.
func (o *Opener) Locked(ctx context.Context) string { return o.lock.locked(ctx) }

// Close closes the desktop, for good.
func (o *Opener) Close() error {
	o.kill()
	<-o.turn
	defer o.giveBack()
	o.closed = true
	o.end()
	o.lock.close()
	return nil
}

// lockWatch answers from a cache, and asks at most one question at a time.
type lockWatch struct {
	ask func(ctx context.Context) string // bounded by ctx
	end func()

	mu     sync.Mutex // above what follows
	at     time.Time
	last   string
	asking chan struct{} // closed when the running question is answered; nil: none runs
}

// How long an answer about the lock is good for, and may take.
const (
	lockedFor   = time.Second
	lockedAfter = 300 * time.Millisecond
)

// locked returns the newest answer that there is in time.
func (l *lockWatch) locked(ctx context.Context) string {
	l.mu.Lock()
	if time.Since(l.at) < lockedFor {
		defer l.mu.Unlock()
		return l.last
	}
	done := l.asking
	if done == nil {
		done = make(chan struct{})
		l.asking = done
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), lockedAfter)
			defer cancel()
			now := l.ask(ctx)
			l.mu.Lock()
			l.last, l.at, l.asking = now, time.Now(), nil
			l.mu.Unlock()
			close(done)
		}()
	}
	l.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

func (l *lockWatch) close() {
	l.mu.Lock()
	running := l.asking
	l.mu.Unlock()
	if running != nil {
		<-running
	}
	l.end()
}
