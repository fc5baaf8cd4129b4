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

func text(c *Call, s string) string {
	a := wire.Answer{Output: []byte(s)}
	c.Answer(&a)
	return string(a.Output)
}

// A call gets nothing of a secret that lay there while it ran: not when it began
// before, and not when it answers after.
func TestEveryMomentCounts(t *testing.T) {
	var b Book
	before := b.Enter(as("anna"))
	other := b.Enter(as("bob"))
	delivery := b.Enter(as("anna"))
	release := delivery.Hold(capabilities.NewSecret([]byte("hunter22")))
	during := b.Enter(as("anna"))
	const said = `{"text":"it is hunter22."}`
	for name, c := range map[string]*Call{"before": before, "during": during, "delivery": delivery} {
		if got := text(c, said); got != `{"text":"it is [secret]."}` || c.Refuses() == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text(other, said) != said || other.Refuses() != nil {
		t.Error("another principal's results tell whether a guess is right")
	}
	if b.Held() != 1 {
		t.Error("not held")
	}
	release()
	release()
	after := b.Enter(as("anna"))
	if text(after, said) != said || after.Refuses() != nil || b.Held() != 0 {
		t.Error("kept back although it was cleared before the call began")
	}
	for name, c := range map[string]*Call{"before": before, "during": during} {
		if text(c, said) == said || c.Refuses() == nil {
			t.Errorf("%s: told after it was cleared", name)
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
		c := b.Enter(as("anna"))
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
	c := b.Enter(as("anna"))
	picture := []capabilities.Blob{{MIME: "image/png", Bytes: []byte("x")}}
	if got, err := c.Blobs(picture); err != nil || len(got) != 1 {
		t.Error("a picture was refused for nothing")
	}
	release := c.Hold(capabilities.NewSecret([]byte("4711")))
	if _, err := c.Blobs(picture); err == nil || err.Code != capabilities.CodeSecretHeld {
		t.Error("a picture left")
	}
	if got, err := c.Blobs([]capabilities.Blob{{MIME: "text/html", Bytes: []byte("<b>4711</b>")}}); err != nil || string(got[0].Bytes) != "<b>[secret]</b>" {
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
