package capabilities

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeoutStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := errors.New("late")
		ctx, clock, cancel := WithTimeout(t.Context(), time.Minute, late)
		defer cancel()
		time.Sleep(40 * time.Second)
		first, second := clock.Pause(), clock.Pause()
		time.Sleep(time.Hour)
		first()
		first()
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("the time ran while somebody was asked")
		}
		second()
		time.Sleep(19 * time.Second)
		if ctx.Err() != nil {
			t.Fatal("it ended early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if context.Cause(ctx) != late {
			t.Fatalf("it ended with %v", context.Cause(ctx))
		}
	})
}

func TestTimeoutEndsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, clock, cancel := WithTimeout(t.Context(), time.Second, errors.New("late"))
		resume := clock.Pause()
		cancel()
		resume()
		time.Sleep(time.Minute)
		synctest.Wait()
		if context.Cause(ctx) != context.Canceled {
			t.Fatalf("it ended with %v", context.Cause(ctx))
		}
	})
}
