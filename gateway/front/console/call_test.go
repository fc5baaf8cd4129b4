package console

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/ledger"
)

// A call that acted on an image names it and the point, and says that the picture is
// not kept; one that saw nothing says nothing.
func TestFrameIsNamed(t *testing.T) {
	of := func(request, end string) string {
		return retold([]ledger.Packet{
			{Kind: ledger.KindCallRequest, Body: json.RawMessage(request)},
			{Kind: ledger.KindCallResult, Body: json.RawMessage(end)},
		}).frame().s
	}
	got := of(`{"evidence":{"frame_id":"f12-ABCD","x":320,"y":200.5}}`, `{"status":"ok"}`)
	for _, want := range []string{"f12-ABCD", "320, 200.5", "The picture is not here"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
	if got := of(`{}`, `{"status":"ok","blobs":[{"mime":"image/png"},{"mime":"text/plain"}]}`); !strings.Contains(got, "Images it gave") || !strings.Contains(got, ">1<") {
		t.Errorf("an image that it gave: %s", got)
	}
	if got := of(`{"evidence":{"text":"x"}}`, `{"status":"ok"}`); got != "" {
		t.Errorf("it saw nothing: %s", got)
	}
}

// Text in a field that people edit comes back as it was, line ends at its beginning
// and hidden characters included.
func TestKeptComesBack(t *testing.T) {
	for _, s := range []string{"", "\n\nx", "</textarea><script>", "\u202e", "a\r\nb", "&lt;"} {
		body := parse(t, el("textarea", nil, kept(s)).s)
		if c := body.FirstChild; c == nil || c.NextSibling != nil || c.FirstChild == nil && s != "" || c.FirstChild != nil && strings.ReplaceAll(c.FirstChild.Data, "\r\n", "\n") != unixLines(s) {
			t.Errorf("%q does not come back", s)
		}
	}
}

// A message reads as a sentence; what begins with a name keeps it.
func TestSentence(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "an agent holds it": "An agent holds it.", "tool.x.y is unknown": "tool.x.y is unknown.", "It ended.": "It ended.", "the file ends (line 3)": "The file ends (line 3)",
	} {
		if got := sentence(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
