package capabilities

import (
	"context"
	"sync"
	"time"
)

// Timeout bounds a call's own time, which stands still while a person is asked for it. It is safe
// for concurrent use.
type Timeout struct {
	mu     sync.Mutex
	left   time.Duration
	since  time.Time // when it last began to run
	paused int
	timer  *time.Timer
}

// WithTimeout returns a context that ends with cause after d of its own time; it has no Deadline,
// because nobody knows how long it stands still.
func WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, *Timeout, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &Timeout{left: d, since: time.Now()}
	t.timer = time.AfterFunc(d, func() { cancel(cause) })
	return ctx, t, func() {
		t.mu.Lock()
		t.paused++ // what resumes later starts nothing
		t.timer.Stop()
		t.mu.Unlock()
		cancel(nil)
	}
}

// Pause has the time stand still until resume, which is idempotent, has been called of every Pause.
func (t *Timeout) Pause() (resume func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused++
	if t.paused == 1 && t.timer.Stop() {
		t.left -= time.Since(t.since)
	}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.paused--; t.paused == 0 {
			t.since = time.Now()
			t.timer.Reset(max(t.left, 0))
		}
	})
}
