package catalog

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An envelope confines to hosts what works in pages or fetches them, by its declared key, and no
// other tool.
func TestNarrows(t *testing.T) {
	all, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	confined := 0
	for _, d := range all.All() {
		pages := strings.Contains(" "+strings.Join(d.Manifest.Keys(), " ")+" ", " "+capabilities.KeyPages+" ")
		pages = pages || d.Tool.Family() == "web"
		if got := d.Narrows(); (got == capabilities.NarrowDomains) != pages || (got == "") == pages {
			t.Errorf("%s: %q", d.Tool, got)
		}
		if pages {
			confined++
		}
	}
	if confined == 0 {
		t.Error("no tool works in pages")
	}
	if c := (Categories{Network: []string{"a.b"}}); c.Has("network.a") || c.Has("network") || c.Has("data.a.b") || !c.Has("network.a.b") {
		t.Errorf("%+v", c)
	}
}
