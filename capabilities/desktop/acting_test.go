package desktop

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Where a call acts is told before it does, and that it does no more; of a call that acts nowhere,
// or was refused, no place is told. The typed text is in none of it.
func TestActing(t *testing.T) {
	b := newBench(t)
	var mu sync.Mutex
	var told []string
	b.h.o.Acting = func(_ capabilities.CallID, at ...platform.Rect) {
		mu.Lock()
		defer mu.Unlock()
		words := make([]string, len(at))
		for i, r := range at {
			words[i] = fmt.Sprintf("%d,%d %dx%d", r.X, r.Y, r.Width, r.Height)
		}
		if word := strings.Join(words, " to "); len(told) == 0 || told[len(told)-1] != word {
			told = append(told, word)
		}
	}
	for _, c := range []struct {
		tool string
		args map[string]any
		want []string
	}{
		{"mouse", map[string]any{"action": "move", "x": 5, "y": 6}, []string{"5,6 1x1"}},
		{"mouse", map[string]any{"action": "click", "x": 7, "y": 8}, []string{"7,8 1x1"}},
		{"mouse", map[string]any{"action": "scroll", "x": 7, "y": 8, "scroll_y": 2}, []string{"7,8 1x1"}},
		{"mouse", map[string]any{"action": "drag", "x": 50, "y": 60, "path": []map[string]any{{"x": 10, "y": 20}}, "duration_ms": 0}, []string{"10,20 1x1 to 50,60 1x1"}},
		{"mouse", map[string]any{"action": "drag", "x": 9, "y": 9, "duration_ms": 0}, []string{"50,60 1x1 to 9,9 1x1"}},
		{"mouse", map[string]any{"action": "click", "x": -5, "y": 6}, nil},
		{"act", map[string]any{"target": "name:Save", "action": map[string]any{"kind": "click"}}, []string{"110,110 40x20"}},
		{"act", map[string]any{"target": "name:Name", "action": map[string]any{"kind": "set_value", "value": "what is typed"}}, []string{"110,200 200x20"}},
		{"act", map[string]any{"target": "name:nothing", "action": map[string]any{"kind": "click"}}, nil},
		{"act", map[string]any{"target": "name:Drawing", "action": map[string]any{"kind": "drag", "x": 300, "y": 310}}, []string{"110,300 200x50", "210,325 1x1 to 300,310 1x1"}},
		{"act", map[string]any{"target": "name:Save", "action": map[string]any{"kind": "activate"}}, []string{"100,100 600x400"}},
		{"screenshot", map[string]any{"region": map[string]any{"x": 20, "y": 30, "width": 40, "height": 50}}, []string{"20,30 40x50"}},
		{"screenshot", map[string]any{}, nil},
		{"keyboard", map[string]any{"action": "type", "text": "secret"}, nil},
		{"query", map[string]any{"selector": "name:Save"}, nil},
	} {
		mu.Lock()
		told = nil
		mu.Unlock()
		_, _, err := b.call(c.tool, c.args)
		mu.Lock()
		if want := append(slices.Clone(c.want), ""); !slices.Equal(told, want) {
			t.Errorf("%s %v (%v): told %q, want %q", c.tool, c.args, err, told, want)
		}
		mu.Unlock()
	}
}
