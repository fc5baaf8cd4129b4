package withhold

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A program's words are free of the value that it was given, in every form and place; a part of the
// value stays, so that nobody can try guesses.
func TestFilter(t *testing.T) {
	const value = `tok"en-4711`
	f := NewFilter(capabilities.NewSecret([]byte(value)), capabilities.NewSecret([]byte("other-one")))
	coded := base64.StdEncoding.EncodeToString([]byte(value))
	out, err := f.Output(capabilities.Output{
		Evidence: value, Result: map[string]any{"text": "a " + value + " b " + coded, "data": map[string]any{value: []any{"other-one", 7}}, "part": "tok"},
		Blobs: []capabilities.Blob{{Bytes: []byte("x" + value)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out.Result)
	if err != nil {
		t.Fatal(err)
	}
	all := out.Evidence + string(text) + string(out.Blobs[0].Bytes)
	for _, bad := range []string{"4711", coded, "other-one"} {
		if strings.Contains(all, bad) {
			t.Errorf("%s holds %q", all, bad)
		}
	}
	if !strings.Contains(all, `"part":"tok"`) || !json.Valid(text) {
		t.Errorf("%s", all)
	}
	e := capabilities.Errorf(capabilities.CodeExecutionFailed, "it is %s", value).WithHint(value).WithDetails(map[string]any{"stderr": value})
	clean := capabilities.AsError(f.Error(e))
	details, err := json.Marshal(clean.Details)
	if err != nil || clean.Code != e.Code || strings.Contains(clean.PublicMessage()+clean.PublicHint()+string(details), "4711") {
		t.Errorf("%v %s %v", clean, details, err)
	}
	var none *Filter
	if none.Text(value) != value || none.Error(e) != error(e) {
		t.Error("no filter changes something")
	}
}

// Of a text that was cut neither edge holds the most of a value.
func TestAFilterOfWhatWasCut(t *testing.T) {
	const value = "CANARY-token-4711"
	f := NewFilter(capabilities.NewSecret([]byte(value)))
	for text, want := range map[string]string{
		"it is " + value[:len(value)-1]: "it is " + Mark,
		value[1:] + " it is":            Mark + " it is",
		value[1:] + " or " + value[:4]:  Mark + " or " + Mark,
		"it is " + value + " whole":     "it is " + Mark + " whole",
		"it is " + value[:3]:            "it is " + value[:3],
		value[2 : len(value)-2]:         value[2 : len(value)-2], // no edge of one
		"":                              "",
	} {
		if got := string(f.Cut([]byte(text))); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var none *Filter
	if string(none.Cut([]byte(value))) != value {
		t.Error("no filter changes something")
	}
}
