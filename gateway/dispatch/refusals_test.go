package dispatch

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A principal whose calls are refused without end is not looked at any more, gets its
// allowance back with time, and holds up nobody else; what was not recorded is counted.
func TestRefusalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	allowed := 0
	for range 3 * refusalBurst {
		if err := r.over("loud", now); err != nil {
			if err.Code != capabilities.CodeOverloaded || !err.Code.Info().Retryable {
				t.Fatal(err)
			}
			continue
		}
		r.count("loud", now)
		allowed++
	}
	if allowed != refusalBurst {
		t.Errorf("%d refusals at once, want %d", allowed, refusalBurst)
	}
	if err := r.over("calm", now); err != nil {
		t.Error(err)
	}
	if m := r.takeMuted(); m["loud"] != 2*refusalBurst || len(m) != 1 {
		t.Errorf("%v", m)
	}
	if m := r.takeMuted(); len(m) != 0 {
		t.Errorf("counted twice: %v", m)
	}
	if err := r.over("loud", now.Add(time.Second)); err != nil {
		t.Error("it gets nothing back")
	}
}

// However many there are, they are few in memory.
func TestRefusedPrincipalsAreBounded(t *testing.T) {
	var r refusals
	now := time.Now()
	for i := range 3 * maxRefused {
		r.count(capabilities.PrincipalID(string(rune('a'+i%26))+time.Duration(i).String()), now)
		if len(r.each) > maxRefused {
			t.Fatalf("%d accounts", len(r.each))
		}
	}
}
