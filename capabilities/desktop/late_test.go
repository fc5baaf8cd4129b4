package desktop

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/fake"
)

// late is an application that an action reaches only after something else of it has
// changed, as when its menu has just been opened.
type late struct {
	platform.Accessibility
	changes func()
	done    *atomic.Int32
}

func (l late) Do(ctx context.Context, ref, action string) error {
	l.changes()
	select {
	case <-time.After(50 * time.Millisecond): // so long the order is on its way
	case <-ctx.Done():
		return ctx.Err()
	}
	l.done.Add(1)
	return l.Accessibility.Do(ctx, ref, action)
}

type lateOpener struct {
	*fake.Desktop
	late late
}

func (o *lateOpener) Open(ctx context.Context) (*platform.Desktop, error) {
	d, err := o.Desktop.Open(ctx)
	if err != nil {
		return nil, err
	}
	other := *d
	o.late.Accessibility = d.Accessibility
	other.Accessibility = o.late
	return &other, nil
}

// A change that an application makes before it has the order is no end of the act: the order is
// carried out, and its effect is looked at then.
func TestOrderOutlivesEarlySigns(t *testing.T) {
	b := newBench(t)
	done := &atomic.Int32{}
	changes := func() {
		b.d.EditElement(b.row, func(e *platform.Element) { e.Name += "." })
	}
	h, err := New(Options{Opener: &lateOpener{b.d, late{changes: changes, done: done}}, QuietTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	b.h = h
	for i := range int32(3) {
		_, out := b.act(`role:button && name:Save`, kind("click"))
		if done.Load() != i+1 || b.clicked.Load() != i+1 {
			t.Fatalf("%d orders and %d clicks after %d acts: %+v", done.Load(), b.clicked.Load(), i+1, out)
		}
		if out.Effect == capabilities.EffectSuspectNoop {
			t.Errorf("%+v", out)
		}
	}
}
