package mcp

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Each key is worded for a model: what it does by itself, or whom it tells what.
func TestEachActionIsWorded(t *testing.T) {
	for _, key := range capabilities.ActionKeys() {
		got := words(capabilities.Action{Key: key})
		if _, own := ownWords[key]; own == (tells[key] != "") {
			t.Errorf("%s has words of its own: %t, and is told to %q", key, own, tells[key])
		} else if !own && (!strings.HasPrefix(got, "Tell ") || !strings.Contains(got, ": ")) || own && strings.Contains(got, "handrail ") {
			t.Errorf("%s: %q", key, got)
		}
	}
	if n := len(ownWords) + len(tells); n != len(capabilities.ActionKeys()) {
		t.Errorf("%d words for %d keys", n, len(capabilities.ActionKeys()))
	}
}
