package capabilities

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestNothingPrintsASecret(t *testing.T) {
	const value = "canary-value"
	s := NewSecret([]byte(value))
	type holder struct {
		S    Secret
		P    *Secret
		s    Secret
		List []Secret
	}
	h := holder{s, &s, s, []Secret{s}}
	var said bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%t", "%p"} {
		fmt.Fprintf(&said, verb+verb+verb, s, &s, h)
	}
	for _, handler := range []slog.Handler{
		slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}), slog.NewJSONHandler(&said, nil),
	} {
		slog.New(handler).Error("x", "s", s, "p", &s, "h", h, "inv", Invocation{Secret: s})
	}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	said.Write(text)
	if err := gob.NewEncoder(&said).Encode(map[string]Secret{"s": s}); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value), "99 97 110"} {
		if strings.Contains(said.String(), form) {
			t.Errorf("the value was printed as %q", form)
		}
	}
	if string(s.Reveal()) != value || s.IsZero() || !(Secret{}).IsZero() || (Secret{}).Reveal() != nil {
		t.Error("Reveal and IsZero")
	}
	if s.Wipe(); strings.Trim(string(s.Reveal()), "\x00") != "" {
		t.Error("wiped, and still there")
	}
}
