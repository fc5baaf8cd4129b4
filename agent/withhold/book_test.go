package withhold

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func as(p capabilities.PrincipalID) func() capabilities.PrincipalID {
	return func() capabilities.PrincipalID { return p }
}

func everything(capabilities.Place) bool { return true }

func text(c *Call, s string) string {
	a := wire.Answer{Output: []byte(s)}
	c.Answer(&a)
	return string(a.Output)
}

// A call gets nothing of a secret that lay there while it ran: not when it began
// before, and not when it answers after.
func TestEveryMomentCounts(t *testing.T) {
	var b Book
	before := b.Enter("main", as("anna"))
	other := b.Enter("main", as("bob"))
	delivery := b.Enter("main", as("anna"))
	release := delivery.Hold(capabilities.NewSecret([]byte("hunter22")))
	during := b.Enter("main", as("anna"))
	const said = `{"text":"it is hunter22."}`
	for name, c := range map[string]*Call{"before": before, "during": during, "delivery": delivery} {
		if got := text(c, said); got != `{"text":"it is [secret]."}` || c.Refuses(everything) == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text(other, said) != said || other.Refuses(everything) != nil {
		t.Error("another principal's results tell whether a guess is right")
	}
	if b.Held() != 1 {
		t.Error("not held")
	}
	release()
	release()
	looks := b.Enter("main", as("anna"))
	if got := text(looks, said); got == said || looks.Refuses(everything) != nil || b.Held() != 0 {
		t.Errorf("once it is cleared texts are kept free of it, and pictures are not refused: %s", got)
	}
	looks.Leave()
	b.CloseLane("another")
	b.CloseLane("main")
	after := b.Enter("main", as("anna"))
	if text(after, said) != said || after.Refuses(everything) != nil || b.Held() != 0 {
		t.Error("kept back although its lane ended before the call began")
	}
	for name, c := range map[string]*Call{"before": before, "during": during} {
		if text(c, said) == said || c.Refuses(everything) == nil {
			t.Errorf("%s: told after its lane ended", name)
		}
	}
	for _, c := range []*Call{before, other, delivery, during, after} {
		c.Leave()
	}
	if len(b.holds) != 0 || len(b.calls) != 0 {
		t.Errorf("%d secrets and %d calls are remembered for nothing", len(b.holds), len(b.calls))
	}
}

// Whatever the value and whatever stands around it, no text holds it, and JSON
// stays JSON.
func TestNoTextHoldsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringN(4, 40, -1).Draw(t, "value")
		around := rapid.StringN(0, 20, -1).Draw(t, "around")
		var b Book
		c := b.Enter("main", as("anna"))
		c.Hold(capabilities.NewSecret([]byte(value)))
		output, err := json.Marshal(map[string]any{
			"plain": around + value + around, "hex": hex.EncodeToString([]byte(value)),
			"b64": base64.StdEncoding.EncodeToString([]byte(value)), "percent": "q=" + url.QueryEscape(value), "list": []any{value, 7, true, nil},
			value: "as a key",
		})
		if err != nil {
			t.Fatal(err)
		}
		a := wire.Answer{Output: output, Details: output, Message: value, Hint: "x" + value, Evidence: value, Observed: []wire.Observation{{Key: "k", Detail: value}}}
		if !c.Answer(&a) {
			t.Fatal("nothing changed")
		}
		var back, details any
		if json.Unmarshal(a.Output, &back) != nil || json.Unmarshal(a.Details, &details) != nil {
			t.Fatalf("no JSON any more: %s", a.Output)
		}
		all := fmt.Sprint(back, details, a.Message, a.Hint, a.Evidence, a.Observed[0].Detail)
		for _, form := range []string{value, hex.EncodeToString([]byte(value)), base64.RawStdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(strings.ReplaceAll(all, Mark, "\x00"), form) && !strings.Contains(Mark, form) {
				t.Fatalf("%q is in %q", form, all)
			}
		}
	})
}

func TestBlobs(t *testing.T) {
	var b Book
	c := b.Enter("main", as("anna"))
	picture := []capabilities.Blob{{MIME: "image/png", Bytes: []byte("x")}}
	if got, err := c.Blobs(picture, everything); err != nil || len(got) != 1 {
		t.Error("a picture was refused for nothing")
	}
	release := c.Hold(capabilities.NewSecret([]byte("4711")))
	if _, err := c.Blobs(picture, everything); err == nil || err.Code != capabilities.CodeSecretHeld {
		t.Error("a picture left")
	}
	if got, err := c.Blobs([]capabilities.Blob{{MIME: "text/html", Bytes: []byte("<b>4711</b>")}}, everything); err != nil || string(got[0].Bytes) != "<b>[secret]</b>" {
		t.Errorf("%v %v", got, err)
	}
	if got := text(c, `{"pin":4711,"n":47110,"deep":[-4711]}`); got != `{"pin":"[secret]","n":47110,"deep":[-4711]}` {
		t.Error(got)
	}
	if c.Text("x4711") != "x[secret]" {
		t.Error("Text")
	}
	release()
	c.Leave()
}

func FuzzReplaceJSON(f *testing.F) {
	f.Add([]byte(`{"a":"secret","b":[1,"x\"secret\\"]}`), "secret")
	f.Add([]byte(`"unfinished \`), "x")
	f.Add([]byte(`{"n":12.5e3}`), "12.5e3")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		if value == "" {
			return
		}
		forms := formsOf(capabilities.NewSecret([]byte(value)))
		out := forms.replaceJSON(data)
		if json.Valid(data) && !json.Valid(out) {
			t.Fatalf("%q became %q, which is no JSON", data, out)
		}
	})
}

// No piece of four characters and more is told, wherever the text was cut; shorter ones
// are, and so is what only looks like it.
func TestPiecesAreKeptBack(t *testing.T) {
	var b Book
	c := b.Enter("main", as("anna"))
	c.Hold(capabilities.NewSecret([]byte("Zq7-Hunter-Kx42=====é€ß")))
	for said, want := range map[string]string{
		"Zq7-H_unter-Kx42": "[secret]_[secret]", "the Hunter's": "the [secret]'s", "Hun ter": "Hun ter", "=====": "=====", "x====y": "x====y",
		"hunter": "h[secret]", "Kx42=": "[secret]", "42=====é": "[secret]", "2026 Kx4": "2026 Kx4", "=é€ß": "[secret]", "=é€": "=é€",
	} {
		if got := c.Text(said); got != want {
			t.Errorf("%q became %q, not %q", said, got, want)
		}
	}
	coded := base64.StdEncoding.EncodeToString([]byte("Zq7-Hunter-Kx42=====é€ß"))
	if got := c.Text("a " + coded[:14] + " b"); got != "a [secret] b" {
		t.Errorf("a piece of an encoding: %q", got)
	}
	if got := text(c, `{"Hunter":"Hunter","n":42}`); got != `{"Hunter":"[secret]","n":42}` {
		t.Errorf("a piece that is a field's name: %s", got)
	}
	if got := string(c.Restore([]byte(`{"kind":"Hunter","text":"Hunter"}`), []byte(`{"kind":"[secret]","text":"[secret]"}`), []string{"/kind"})); got != `{"kind":"Hunter","text":"[secret]"}` {
		t.Errorf("a word of a closed list: %s", got)
	}
}

// Whatever is cut out of it: a piece of four characters and more, not all the same, is
// always found, and what has none is left as it is.
func TestEveryPieceIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching("[abé€]{4,24}").Draw(t, "value")
		data := rapid.StringMatching("[abcé€]{0,40}").Draw(t, "data")
		p := piecesOf([]byte(value), leastPiece)
		var covered [400]bool
		p.spans([]byte(data), func(begin, end int) {
			if !strings.Contains(value, data[begin:end]) {
				t.Fatalf("%q is no piece", data[begin:end])
			}
			for i := begin; i < end; i++ {
				covered[i] = true
			}
		})
		runes := []rune(data)
		for i := range runes {
			for j := i + leastPiece; j <= len(runes); j++ {
				piece := string(runes[i:j])
				if !strings.Contains(value, piece) || strings.Count(piece, string(runes[i])) == j-i {
					continue
				}
				for k := len(string(runes[:i])); k < len(string(runes[:j])); k++ {
					if !covered[k] {
						t.Fatalf("%q of %q is told in %q", piece, value, data)
					}
				}
			}
		}
	})
}

type spot struct{ here *bool }

func (s spot) Here() bool { return *s.here }

// After a paste the place is not looked at until it is left, or a person says so; others'
// secrets are not pasted.
func TestAPlaceIsNotLookedAt(t *testing.T) {
	var b Book
	one, two := true, true
	first, second := spot{&one}, spot{&two}
	only := func(p spot) func(capabilities.Place) bool {
		return func(o capabilities.Place) bool { return o == capabilities.Place(p) }
	}
	c := b.Enter("main", as("anna"))
	paste := func(c *Call, s spot) *capabilities.Error {
		return c.Pasting(func() capabilities.Place { return s })
	}
	if err := paste(c, first); err != nil || len(b.pasted) != 0 {
		t.Error("a paste of nothing is noted")
	}
	release := c.Hold(capabilities.NewSecret([]byte("hunter22")))
	other := b.Enter("main", as("bob"))
	if err := paste(other, second); err == nil || err.Code != capabilities.CodeSecretHeld {
		t.Error("somebody else pastes it")
	}
	for range 2 {
		if paste(c, first) != nil || paste(c, second) != nil {
			t.Error("it cannot be pasted")
		}
	}
	release()
	if c.Leave(); len(b.pasted) != 2 {
		t.Errorf("%d places", len(b.pasted))
	}
	now := b.Enter("main", as("anna"))
	if now.Refuses(only(first)) == nil || now.Refuses(only(second)) == nil || other.Refuses(everything) != nil {
		t.Error("a place is looked at, or one of another's is refused")
	}
	if one = false; now.Refuses(only(first)) != nil {
		t.Error("a place that was left is refused")
	}
	if one = true; now.Refuses(only(first)) == nil {
		t.Error("a place that came back is not refused")
	}
	b.Done("another")
	if now.Refuses(only(second)) == nil {
		t.Error("the word on another lane counts")
	}
	b.Done("main")
	if now.Refuses(everything) != nil || text(now, `"hunter22"`) != `"[secret]"` {
		t.Error("after a person's word pictures are refused, or texts are not kept free of it")
	}
}

// The longest value there is costs no more than a moment, whatever is read.
func TestALongValue(t *testing.T) {
	for _, value := range []string{strings.Repeat("ab", capabilities.MaxSecret/2), strings.Repeat("a", capabilities.MaxSecret-1) + "b"} {
		f := formsOf(capabilities.NewSecret([]byte(value)))
		f.replace([]byte(strings.Repeat(value[:1000]+"x", 1000)))
		f.wipe()
	}
}
