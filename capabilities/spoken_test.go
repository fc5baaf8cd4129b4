package capabilities

import (
	"testing"
	"time"
)

func TestSpoken(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0 s": 0, "45 s": 45 * time.Second, "5 min": 5 * time.Minute, "1 h 30 min": 90 * time.Minute, "14 min": 14 * time.Minute,
		"24 h": 24 * time.Hour, "1 min 1 s": 61 * time.Second, "90 days": 90 * 24 * time.Hour, "3 days 2 h": 74*time.Hour + time.Minute, "1 h": time.Hour,
	} {
		if got := Spoken(d); got != want {
			t.Errorf("%s is said %q, want %q", d, got, want)
		}
	}
}
