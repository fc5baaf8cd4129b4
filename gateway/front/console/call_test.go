package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
)

// A call that acted on an image names it and the point, and says that the picture is
// not kept; one that saw nothing says nothing.
func TestFrameIsNamed(t *testing.T) {
	c, err := New(Options{API: offering(true), Sessions: noSessions{}, Passkeys: noPasskeysKept{}})
	if err != nil {
		t.Fatal(err)
	}
	of := func(request, end string) string {
		v := &visit{r: httptest.NewRequest(http.MethodGet, "/console/calls/c1", nil), con: c}
		made, err := c.render("call", v.screen(page{data: v.callOf([]api.Packet{
			{Kind: string(ledger.KindCallRequest), Body: json.RawMessage(request)},
			{Kind: string(ledger.KindCallResult), Body: json.RawMessage(end)},
		})}))
		if err != nil {
			t.Fatal(err)
		}
		_, saw, _ := strings.Cut(string(made), "What it saw")
		saw, _, _ = strings.Cut(saw, "<h2")
		return saw
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
