package browser

import (
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// Answers leave out what calls typed in secret, that is into fields for passwords and codes:
// hider.go says of which texts. Pages show such a value, send it on, and some log
// it. But a PIN is also a year or a part of an order's number, and an agent that reads
// "Order 1(hidden)34" works with what is not there. So a short value is hidden only where
// the page repeats it as such: page/secret.js knows the fields and what stands beside them.

// typedSecrets are the passwords and codes that calls put into a lane's pages, in memory
// only, for the life of the lane.
type typedSecrets struct {
	mu    sync.Mutex
	list  []typedSecret
	hider *hider
}

// typedSecret is one of them.
type typedSecret struct {
	text  string
	names []string      // of its field: what forms call the value in what they send
	place shownDocument // that it was typed in
}

// Bounds: minLong is from how many characters on a value is hidden wherever it is a whole
// word.
const (
	minLong  = 8
	maxTyped = 64
)

func (s typedSecret) long() bool { return utf8.RuneCountInString(s.text) >= minLong }

// noteTyped remembers a secret that is about to be put into a field of these names.
func (c *call) noteTyped(text string, names []string) {
	c.lane.noteTyped(typedSecret{text, names, c.tab.shows()})
}

func (l *lane) noteTyped(secret typedSecret) {
	if secret.text == "" {
		return
	}
	s := &l.typed
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(x typedSecret) bool {
		return x.text == secret.text && x.place == secret.place && slices.Equal(x.names, secret.names)
	})
	if len(s.list) >= maxTyped {
		s.list = s.list[1:]
	}
	s.list = append(slices.Clone(s.list), secret)
	s.hider = newHider(s.list)
}

// hider returns what hides all that was typed in secret so far.
func (l *lane) hider() *hider {
	s := &l.typed
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hider
}

// hidIn notes that a part of the call's answer was made without what was typed in secret.
func (c *call) hidIn(part string) {
	if !slices.Contains(c.hid, part) {
		c.hid = append(c.hid, part)
	}
}

// hide takes what was typed in secret out of the call's answer, and says there once that
// it did, and in which parts of it.
func (c *call) hide(out *capabilities.Output) {
	for _, part := range c.lane.hider().output(out) {
		c.hidIn(part)
	}
	if len(c.hid) == 0 {
		return
	}
	out.Evidence = joined(out.Evidence, "what was typed in secret is hidden in: "+strings.Join(c.hid, ", "))
}

// unsaid takes short secrets out of an expression's value, where w's document still has
// them: texts that are the value and nothing else, unless the page has the same
// elsewhere, and the source of elements that repeat it.
func (c *call) unsaid(w world, raw []byte) []byte {
	if !c.lane.hider().holdsShort(string(raw)) {
		return raw
	}
	var repeated []struct {
		Value string   `json:"value"`
		Alone bool     `json:"alone"` // nothing else of the page is that value
		HTML  []string `json:"html"`  // of what repeats it
	}
	if w.id == 0 {
		w, _ = c.tab.inWorld(c.ctx)
	}
	if w.id == 0 || w.put(c.ctx, inpage.Repeated, struct{}{}).get(c.ctx, &repeated) != nil {
		return raw // the document went, and the field with it
	}
	changed := false
	raw = mapJSON(raw, func(_, s string) string {
		was := s
		for _, r := range repeated {
			if r.Alone && strings.TrimSpace(s) == r.Value {
				s = hidden
			}
			for _, source := range r.HTML {
				if strings.Contains(s, source) {
					s = strings.ReplaceAll(s, source, hideWords(source, r.Value))
				}
			}
		}
		changed = changed || s != was
		return s
	})
	if changed {
		c.hidIn("result")
	}
	return raw
}

// place takes what was typed in secret out of an address and a title, and then cuts them;
// in are the parts that something was in.
func (h *hider) place(url, title string) (address, name string, in []string) {
	most := maxURL
	if strings.HasPrefix(url, "data:") {
		most = record.MaxDataURL
	}
	cut := func(part, s string, most int) string {
		s = clipText(s, most+record.Slack)
		shown := h.text(s)
		if shown != s {
			in = append(in, part)
		}
		return clipText(shown, most)
	}
	address, name = cut("url", url, most), cut("title", title, maxTitle)
	return address, name, in
}

// told is an address and a title as an answer has them.
func (c *call) told(url, title string) (address, name string) {
	address, name, in := c.lane.hider().place(url, title)
	for _, part := range in {
		c.hidIn(part)
	}
	return address, name
}
