package withhold

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// Text returns s without the values that are kept back from this call.
func (c *Call) Text(s string) string {
	for _, h := range c.kept() {
		s = string(h.forms.replace([]byte(s), c.book.names))
	}
	return s
}

// Names says which names are this program's own, such as those of fields: a piece of a
// value that is within one of them is told. To be called before any call.
func (b *Book) Names(names []string) {
	b.names = make(map[string]bool, len(names))
	for _, name := range names {
		b.names[name] = true
	}
}

// Answer takes the values out of every text of a but the words of its code. It reports
// whether it changed what the tool returned.
func (c *Call) Answer(a *wire.Answer) (changed bool) {
	for _, h := range c.kept() {
		text := func(s *string) { *s = string(h.forms.replace([]byte(*s), c.book.names)) }
		if own := (&capabilities.Error{Code: a.Code}); a.Code == "" || a.Message != own.PublicMessage() {
			text(&a.Message)
		}
		if own := (&capabilities.Error{Code: a.Code}); a.Code == "" || a.Hint != own.PublicHint() {
			text(&a.Hint)
		}
		text((*string)(&a.Action.Node))
		text((*string)(&a.Action.Tool))
		text((*string)(&a.Action.Capability))
		text((*string)(&a.Action.Lane))
		text(&a.Action.Name)
		text(&a.Evidence)
		for i := range a.Observed {
			text(&a.Observed[i].Detail)
		}
		if len(a.Details) > 0 {
			a.Details = h.forms.replaceJSON(a.Details, c.book.names)
		}
		if len(a.Output) > 0 {
			clean := h.forms.replaceJSON(a.Output, c.book.names)
			changed = changed || !bytes.Equal(clean, a.Output)
			a.Output = clean
		}
	}
	return changed
}

// Restore returns clean with the strings at paths as they were in original where no whole
// value is in them: a word of a closed list that happens to be a piece of a value.
func (c *Call) Restore(original, clean []byte, paths []string) []byte {
	var was, is any
	if unmarshal(original, &was) != nil || unmarshal(clean, &is) != nil {
		return clean
	}
	kept := c.kept()
	for _, path := range paths {
		word, ok := at(was, path).(string)
		if !ok || len(word) > maxWord || slices.ContainsFunc(kept, func(h *heldSecret) bool { return h.forms.holds([]byte(word)) }) {
			return clean
		}
		put(is, path, word)
	}
	out, err := json.Marshal(is)
	if err != nil {
		return clean
	}
	return out
}

// maxWord is how long a word of a closed list is at most.
const maxWord = 32

func unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// at returns the value at a JSON pointer, or nil.
func at(v any, path string) any {
	for _, step := range strings.Split(path, "/")[1:] {
		switch in := v.(type) {
		case map[string]any:
			v = in[unescape.Replace(step)]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func put(v any, path, word string) {
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return
	}
	switch in := at(v, path[:cut]).(type) {
	case map[string]any:
		in[unescape.Replace(path[cut+1:])] = word
	case []any:
		if i, err := strconv.Atoi(path[cut+1:]); err == nil && i >= 0 && i < len(in) {
			in[i] = word
		}
	}
}

// Blobs returns what of a call's bytes may leave: no picture of where a value may be, and
// texts without the values. The error says why nothing may.
func (c *Call) Blobs(blobs []capabilities.Blob) ([]capabilities.Blob, *capabilities.Error) {
	if len(blobs) == 0 {
		return blobs, nil
	}
	kept := c.kept()
	out := make([]capabilities.Blob, len(blobs))
	for i, b := range blobs {
		// Nobody reads a picture here, so none leaves; nor does what is packed.
		if kind, _, _ := strings.Cut(b.MIME, "/"); kind == "image" || kind == "video" || strings.HasPrefix(b.MIME, "application/pdf") {
			if err := c.Refuses(); err != nil {
				return nil, err
			}
			out[i] = b
			continue
		}
		for _, h := range kept {
			b.Bytes = h.forms.replace(b.Bytes, c.book.names)
		}
		out[i] = b
	}
	return out, nil
}
