package capability

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // screenshots
	_ "image/png"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// field wants a field of the last result; the path goes through objects and
// lists, as in "tabs.0.url". Of strings, want is a part.
func field(path string, want any) step {
	return func(r *run) {
		got := pick(r.last.Result, path)
		text, isText := got.(string)
		part, partWanted := want.(string)
		if isText && partWanted {
			if !strings.Contains(text, r.fill(part)) {
				r.fail("%s of %s is %q, which does not hold %q", path, r.last.Tool, clip(text, 600), r.fill(part))
			}
			return
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if !bytes.Equal(g, w) {
			r.fail("%s of %s is %s, want %s", path, r.last.Tool, clip(string(g), 600), w)
		}
	}
}

// without wants text to be nowhere in the last answer.
func without(text string) step {
	return func(r *run) {
		c := r.last
		if all, _ := json.Marshal([]any{c.Result, c.Evidence, c.Message, c.Hint}); strings.Contains(string(all), text) {
			r.fail("%s tells %q: %s", c.Tool, text, clip(string(all), 600))
		}
	}
}

// pick follows a path through decoded JSON.
func pick(v any, path string) any {
	if path == "" {
		return v
	}
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[name]
		case []any:
			if name == "length" {
				v = len(x)
				break
			}
			var i int
			if _, err := fmt.Sscan(name, &i); err != nil || i < 0 || i >= len(x) {
				return nil
			}
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// among wants one entry of a list in the last result to hold all the words in
// its JSON.
func among(path string, words ...string) step {
	return func(r *run) {
		if !isAmong(r.last, path, words) {
			r.fail("no entry of %s has %q: %s", path, words, brief(pick(r.last.Result, path)))
		}
	}
}

func isAmong(c *Call, path string, words []string) bool {
	list, _ := pick(c.Result, path).([]any)
	for _, x := range list {
		if text, _ := json.Marshal(x); containsAll(plain(text), words) {
			return true
		}
	}
	return false
}

// notAmong wants no entry to hold them all.
func notAmong(path string, words ...string) step {
	return func(r *run) {
		list, _ := pick(r.last.Result, path).([]any)
		for _, x := range list {
			if text, _ := json.Marshal(x); containsAll(plain(text), words) {
				r.fail("an entry of %s has %q: %s", path, words, text)
			}
		}
	}
}

// plain undoes the escapes that json.Marshal adds for HTML.
func plain(text []byte) string {
	return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(text))
}

// effect wants what the last call claims of its effect. The page is checked by
// other steps: this is for claims that have to be as modest as the truth.
func effect(want capabilities.Effect) step {
	return func(r *run) {
		if r.last.Effect != want {
			r.fail("%s claims the effect %q (%s), want %q", r.last.Tool, r.last.Effect, r.last.Evidence, want)
		}
	}
}

// picture wants an image as the last result and looks at it.
func picture(look func(img image.Image) string) step {
	return func(r *run) {
		img, _, err := image.Decode(bytes.NewReader(r.last.Blob))
		if err != nil {
			r.fail("%s gave no readable image: %v", r.last.Tool, err)
		}
		if wrong := look(img); wrong != "" {
			r.fail("the image: %s", wrong)
		}
	}
}

// check is any other look at the last call; it says what is wrong.
func check(look func(c *Call) string) step {
	return func(r *run) {
		if wrong := look(r.last); wrong != "" {
			r.fail("%s: %s", r.last.Tool, wrong)
		}
	}
}
