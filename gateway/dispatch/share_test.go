package dispatch

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// One principal must not be able to keep every other out.
func TestOnePrincipalHasItsShareOnly(t *testing.T) {
	d := &Dispatcher{opts: Options{MaxRunning: 8}, shares: map[capabilities.PrincipalID]int{}}
	for i := range 8 / principalShare {
		if !d.share("greedy") {
			t.Fatalf("call %d was refused", i)
		}
	}
	if d.share("greedy") {
		t.Fatal("more than its share")
	}
	if !d.share("modest") {
		t.Fatal("another principal was kept out")
	}
	d.unshare("greedy")
	if !d.share("greedy") {
		t.Fatal("what ended was not given back")
	}
	d.unshare("modest")
	if _, kept := d.shares["modest"]; kept {
		t.Fatal("a principal without calls is remembered")
	}
}
