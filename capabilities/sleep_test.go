package capabilities

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, d := range []time.Duration{-1, 0, time.Hour} {
		if err := Sleep(ended, d); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: %v", d, err)
		}
	}
	began := time.Now()
	if err := Sleep(t.Context(), 20*time.Millisecond); err != nil || time.Since(began) < 20*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
