package site

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestOneCallThroughTheWholeSite(t *testing.T) {
	s := Start(t, Options{})
	h := NewHandler()
	n := s.AddNode("one", h)
	r := s.Call(context.Background(), ToolEcho, `{"text":"hi"}`, "")
	if r.Status != capabilities.StatusOK || string(r.Output) != `{"text":"hi"}` {
		t.Fatalf("%+v", r)
	}
	if r.Routing == nil || r.Routing.Selected != n.ID || r.Routing.Mode != capabilities.SelectSole {
		t.Fatalf("routing %+v", r.Routing)
	}
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 20 {
				text := fmt.Sprintf("%d-%d", i, j)
				if r := s.Call(context.Background(), ToolEcho, `{"text":"`+text+`"}`, capabilities.RequestID(text)); r.Status != capabilities.StatusOK || h.Runs(text) != 1 {
					t.Errorf("%s: %+v, %d runs", text, r, h.Runs(text))
				}
			}
		}()
	}
	wg.Wait()
}
