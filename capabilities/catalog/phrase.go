package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// Phrase says in a few words what a call does, for lists that people read. {name} stands for a
// recorded argument (EvidenceArgs) and is left out where the call does not have it; what is in
// [brackets] is left out with it. Of an address the host is shown.
type Phrase struct {
	Do string `json:"do"` // "open {url}"
	// Done is "opened {url}"; {in_app} is the application that it was done in, {fields_count}
	// how many fields were filled.
	Done string `json:"done"`
	// Typed stands for Done of a call that typed text and may say how much, which is
	// {typed_count}; none: Done.
	Typed string `json:"typed,omitempty"`
}

// Did is what a call did, as its last packet has it.
type Did struct {
	App    string `json:"app"`
	Fields uint32 `json:"fields"`
	Typed  uint32 `json:"typed"`
}

// didNames are the words of phrases that Did fills in.
var didNames = []string{"in_app", "fields_count", "typed_count"}

// words returns them.
func (d Did) words() map[string]any {
	out := map[string]any{}
	if d.App != "" {
		out["in_app"] = d.App
	}
	if d.Fields > 0 {
		out["fields_count"] = counted(d.Fields, "field")
	}
	if d.Typed > 0 {
		out["typed_count"] = counted(d.Typed, "character")
	}
	return out
}

// counted is a number of things in words.
func counted(n uint32, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// maxPhraseValue bounds one argument within a phrase, in characters.
const maxPhraseValue = 60

// Say words a call with these recorded arguments: Done of one that ended well, with what it
// did, else Do. Where the descriptor has no phrase it is Title; of a provided tool with the
// family that its provider has, for two of them can have the same words.
func (d *Descriptor) Say(evidence map[string]any, done bool, did Did) string {
	text := d.Phrase.Do
	if done {
		text = d.Phrase.Done
		if d.Phrase.Typed != "" && did.Typed > 0 {
			text = d.Phrase.Typed
		}
		words := did.words()
		maps.Copy(words, evidence)
		evidence = words
	}
	if text == "" && d.Provider != "" {
		return d.Title + " (" + d.Tool.Family() + ")"
	}
	if text == "" {
		return d.Title
	}
	var b strings.Builder
	for text != "" {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			part, _ := fill(text, evidence)
			b.WriteString(part)
			break
		}
		part, _ := fill(text[:open], evidence)
		b.WriteString(part)
		optional, rest, _ := strings.Cut(text[open+1:], "]")
		if part, whole := fill(optional, evidence); whole {
			b.WriteString(part)
		}
		text = rest
	}
	return strings.TrimSpace(b.String())
}

// fill puts arguments into a part; whole says that all of them are there.
func fill(part string, evidence map[string]any) (filled string, whole bool) {
	var b strings.Builder
	whole = true
	for {
		before, rest, ok := strings.Cut(part, "{")
		b.WriteString(before)
		if !ok {
			return b.String(), whole
		}
		name, after, _ := strings.Cut(rest, "}")
		value := said(name, evidence[name])
		whole = whole && value != ""
		b.WriteString(value)
		part = after
	}
}

// said is a recorded argument in words; empty where there is none.
func said(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		if name == "url" {
			if u, err := url.Parse(v); err == nil && u.Host != "" {
				v = u.Host
			}
		}
		return capabilities.First(strings.Join(strings.Fields(v), " "), maxPhraseValue)
	default:
		raw, _ := json.Marshal(v)
		return capabilities.First(string(raw), maxPhraseValue)
	}
}

// validatePhrase refuses a phrase that names what is not recorded.
func (d *Descriptor) validatePhrase() error {
	if (d.Phrase.Do == "") != (d.Phrase.Done == "") {
		return refuse(d, "a phrase says what is done and what was done")
	}
	known := slices.Clone(didNames)
	for _, pointer := range d.Evidence.Args {
		known = append(known, evidenceName(pointer))
	}
	for _, text := range []string{d.Phrase.Do, d.Phrase.Done, d.Phrase.Typed} {
		if strings.Count(text, "[") != strings.Count(text, "]") || strings.Count(text, "{") != strings.Count(text, "}") {
			return refuse(d, "the phrase %q has a bracket without its other half", text)
		}
		for part := range strings.SplitSeq(text, "{") {
			if name, _, ok := strings.Cut(part, "}"); ok && !slices.Contains(known, name) {
				return refuse(d, "the phrase %q names %s, which is not recorded", text, name)
			}
		}
	}
	return nil
}
