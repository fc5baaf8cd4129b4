package capabilities

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// Every hop has a name, which logs print in both forms, and nothing else has one.
func TestHopsHaveNames(t *testing.T) {
	seen := map[string]bool{"": true}
	for h := HopFront; h <= HopAnswer; h++ {
		name := h.String()
		if seen[name] {
			t.Errorf("hop %d is called %q", int(h), name)
		}
		seen[name] = true
		var text, json strings.Builder
		slog.New(slog.NewTextHandler(&text, nil)).Info("x", "hop", h)
		slog.New(slog.NewJSONHandler(&json, nil)).Info("x", "hop", h)
		if !strings.Contains(text.String(), "hop="+name) || !strings.Contains(json.String(), fmt.Sprintf(`"hop":%q`, name)) {
			t.Errorf("%s is logged as %s%s", name, &text, &json)
		}
	}
	for _, h := range []Hop{-1, 0, HopAnswer + 1} {
		if h.String() != "" {
			t.Errorf("hop %d is called %q", int(h), h)
		}
	}
}
