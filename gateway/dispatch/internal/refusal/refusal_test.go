package refusal

import (
	"fmt"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A principal whose calls are refused without end is not looked at any more, gets its
// allowance back with time, and holds up nobody else; what was not recorded is counted.
func TestRefusalsAreBounded(t *testing.T) {
	var b Book
	now := time.Now()
	allowed := 0
	for i := range 3 * burst {
		tool := capabilities.ToolID("tool.a.b")
		if i%2 == 1 {
			tool = ""
		}
		if err := b.TurnAway("loud", tool, now); err != nil {
			if err.Code != capabilities.CodeOverloaded || !err.Code.Info().Retryable {
				t.Fatal(err)
			}
			continue
		}
		b.Count("loud", now)
		allowed++
	}
	if allowed != burst {
		t.Errorf("%d refusals at once, want %d", allowed, burst)
	}
	if err := b.TurnAway("calm", "tool.a.b", now); err != nil {
		t.Error(err)
	}
	if m := b.Take(); m["loud"]["tool.a.b"] != burst || m["loud"][""] != burst || len(m) != 1 {
		t.Errorf("%v", m)
	}
	if m := b.Take(); m != nil {
		t.Errorf("counted twice: %v", m)
	}
	if err := b.TurnAway("loud", "", now.Add(time.Second)); err != nil {
		t.Error("it gets nothing back")
	}
}

// However many principals and tools there are, they are few in memory, and all are counted.
func TestAccountsAreBounded(t *testing.T) {
	var b Book
	now := time.Now()
	for i := range 3 * maxAccounts {
		b.Count(capabilities.PrincipalID(fmt.Sprint("p", i)), now)
		if len(b.each) > maxAccounts {
			t.Fatalf("%d accounts", len(b.each))
		}
	}
	for range burst {
		b.Count("loud", now)
	}
	for i := range 10 * maxToolsEach {
		if b.TurnAway("loud", capabilities.ToolID(fmt.Sprint("tool.x.t", i)), now) == nil {
			t.Fatal("not turned away")
		}
	}
	away, sum := b.Take()["loud"], uint64(0)
	for _, n := range away {
		sum += n
	}
	if len(away) > maxToolsEach+1 || sum != 10*maxToolsEach {
		t.Errorf("%d names, %d calls", len(away), sum)
	}
}
