//go:build linux

package browser

import "testing"

// What libraries make of lists, pickers and tables reads as what a person sees: once, with
// its words, and with nothing to press that nobody can.

func TestSearchInAListIsNoSecret(t *testing.T) {
	s := newSite(t, map[string]string{"/": html(`<input id=c role=combobox aria-autocomplete=list aria-label=Country autocomplete=new-password oninput="said.textContent=value"><p id=said></p>
<input id=p aria-label=Shown autocomplete=new-password><input id=w type=password role=combobox aria-autocomplete=list aria-label=Odd>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL)
	n.must("type", obj{"selector": "#c", "text": "Germany"})
	n.must("fill-form", obj{"fields": []obj{{"selector": "#p", "value": "hunter2secret"}, {"selector": "#w", "value": "anotherSecret"}}})
	snap := n.snap()
	wants(t, snap, `- combobox "Country" [ref=`, `: "Germany"`, "- text: Germany", `(filled, hidden)`)
	never(t, snap, "hunter2secret", "anotherSecret")
}
