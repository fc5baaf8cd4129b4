package recent

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/dispatch/internal/execution"
)

func TestResultsStandForAWhile(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var c Calls
	key := execution.Key{Asker: execution.Asker{Principal: "agent"}, Same: [32]byte{1}}
	if _, ok := c.Get(key, now); ok {
		t.Error("something stands for a call that never was")
	}
	c.Put(key, "c1", now, now.Add(time.Minute))
	for _, other := range []execution.Key{
		{Asker: execution.Asker{Principal: "other"}, Same: key.Same}, {Asker: key.Asker, Same: [32]byte{2}}, {Asker: key.Asker},
		{Asker: execution.Asker{Principal: "agent", Person: true}, Same: key.Same},
	} {
		if call, ok := c.Get(other, now); ok {
			t.Errorf("%v gets %s", other, call)
		}
	}
	if call, ok := c.Get(key, now.Add(time.Minute-1)); !ok || call != "c1" {
		t.Errorf("within its time: %q %v", call, ok)
	}
	c.Put(key, "c2", now, now.Add(time.Hour))
	if call, _ := c.Get(key, now.Add(time.Minute)); call != "c2" {
		t.Errorf("the newer one: %q", call)
	}
	if _, ok := c.Get(key, now.Add(time.Hour)); ok {
		t.Error("it stands beyond its time")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var c Calls
	at := func(i int) execution.Key { return execution.Key{Same: [32]byte{byte(i), byte(i >> 8)}} }
	for i := range maxCalls + 100 {
		c.Put(at(i), "c", now, now.Add(time.Minute))
	}
	if len(c.byKey) != maxCalls {
		t.Errorf("%d calls", len(c.byKey))
	}
	c.Put(at(maxCalls+1), "c", now.Add(time.Minute), now.Add(time.Hour)) // the old ones are over
	if len(c.byKey) != 1 {
		t.Errorf("%d calls after their time", len(c.byKey))
	}
}
