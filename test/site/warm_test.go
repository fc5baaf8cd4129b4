package site

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// warmed counts how often it was started ahead of a call.
type warmed struct {
	*Handler
	times atomic.Int64
}

func (w *warmed) Warm(context.Context) { w.times.Add(1) }

// A program that the first call would wait for is started ahead only where a call could come.
func TestWarm(t *testing.T) {
	s := Start(t, Options{})
	h := &warmed{Handler: NewHandler()}
	n := s.AddNode("one", h)
	again := func() int64 {
		n.Stop() // what Run started has ended then
		before := h.times.Load()
		n.Start()
		n.Stop()
		return h.times.Load() - before
	}
	if again() != 0 {
		t.Error("nobody asked for it")
	}
	n.Warm = true
	if again() != 1 {
		t.Error("it was not started ahead")
	}
	rules := filepath.Join(n.Dir, "owner.json")
	must(t, os.WriteFile(rules, []byte(`{"version":1,"capabilities":{"fixture":"never"}}`), 0o600))
	if again() != 0 {
		t.Error("the owner has switched it off")
	}
	must(t, os.Remove(rules))
	if again() != 1 {
		t.Error("the owner has switched it on again")
	}
	n.Start()
	n.Halt("test")
	if again() != 0 {
		t.Error("the node is stopped")
	}
}
