//go:build linux

package browser

import (
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// An element that takes no clicks is named itself, and the page as a cover without all its
// text.
func TestObscuredByThePage(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`Long words of the page that are nobody's name <button id=b style="pointer-events:none">Buy</button>
<div style="height:0;overflow:hidden"><a id=c href=/ style="display:block;height:20px">Clipped</a></div><div style="pointer-events:none"><button id=in style="pointer-events:auto" onclick="document.title='in'">In</button></div>`)})
	n.goTo(s.URL + "/")
	err := n.refused(capabilities.CodeElementObscured, "click", obj{"selector": "#b"})
	if err.Message != `<button#b> "Buy" takes no clicks (pointer-events: none); they go to <body>.` || strings.Contains(err.PublicHint(), "covering") {
		t.Error(err, err.PublicHint())
	}
	if err := n.refused(capabilities.CodeElementObscured, "click", obj{"selector": "#c"}); strings.Contains(err.Message, "Long words") {
		t.Error(err)
	}
	n.must("click", obj{"selector": "#in"})
	if n.eval("document.title") != "in" {
		t.Error("it was not clicked")
	}
}
