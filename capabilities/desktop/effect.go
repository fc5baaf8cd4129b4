package desktop

import (
	"context"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// effectWait bounds the wait for the first sign that input did something; a sign
// ends it at once.
const effectWait = 150 * time.Millisecond

// signs tells whether anything changes on an area of the screen. It learns where
// something changed, never what is shown there. Nil: this desktop cannot tell.
type signs struct {
	changes <-chan platform.Rect
	stop    context.CancelFunc
}

// watchArea begins to look for changes, before the input is made.
func watchArea(ctx context.Context, d *platform.Desktop, area platform.Rect) *signs {
	if d.Screen == nil || area.Empty() {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	changes, err := d.Screen.Changes(ctx, area)
	if err != nil || changes == nil {
		stop()
		return nil
	}
	return &signs{changes: changes, stop: stop}
}

// drain forgets what changed so far.
func (s *signs) drain() {
	for s != nil {
		select {
		case _, ok := <-s.changes:
			if ok {
				continue
			}
		default:
		}
		return
	}
}

// verdict waits for the first change after the input, and says what that proves.
// done says what was read back, such as "the pointer was read back there".
func (s *signs) verdict(ctx context.Context, done string) (capabilities.Effect, string) {
	if s == nil {
		return capabilities.EffectUnverifiable, done + "; this desktop does not tell what it changed"
	}
	timer := time.NewTimer(effectWait)
	defer timer.Stop()
	select {
	case _, ok := <-s.changes:
		if ok {
			return capabilities.EffectPartial, done + "; the screen changed there after it"
		}
	case <-timer.C:
		return capabilities.EffectSuspectNoop, done + "; nothing changed on the screen there"
	case <-ctx.Done():
	}
	return capabilities.EffectUnverifiable, done
}

func (s *signs) close() {
	if s != nil {
		s.stop()
	}
}
