package console

import (
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Each key is worded on the pages: a page that there is, or a command where no page does it.
func TestEachActionIsWorded(t *testing.T) {
	for _, key := range capabilities.ActionKeys() {
		w := wayOf(capabilities.Action{Key: key})
		_, page := pageWays[key]
		if page == slices.Contains(byCommand, key) || w.After == "" || page != strings.HasPrefix(w.Address, "/console/") {
			t.Errorf("%s: %+v", key, w)
		}
	}
	if n := len(pageWays) + len(byCommand); n != len(capabilities.ActionKeys()) {
		t.Errorf("%d words for %d keys", n, len(capabilities.ActionKeys()))
	}
}
