//go:build linux

package browser

import "testing"

// One Chrome serves all lanes: what a page may ask of it is bounded.
func TestPagesCanNotFloodTheBrowser(t *testing.T) {
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	if got := n.eval("(()=>{for(let i=0;i<1000;i++)history.pushState(0,'','?'+i);return location.search})()"); got == "?999" {
		t.Error("Chrome's bound on changes of the address is off")
	}
}
