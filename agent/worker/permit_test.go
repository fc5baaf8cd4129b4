package worker

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

// asked is a person who answers one way, and what they were asked.
type asked struct {
	g       *listed
	yes     bool
	session bool
	seen    []Question
	revoked []string
}

func (a *asked) Ask(_ context.Context, q Question) (Leases, error) {
	if len(a.g.calls) > 0 {
		return Leases{}, errors.New("a call was made before the question")
	}
	a.seen = append(a.seen, q)
	if !a.yes {
		return Leases{Refused: true}, nil
	}
	a.g.granted = true
	if a.session {
		return Leases{}, nil
	}
	return Leases{Grants: []string{"g-1"}}, nil
}

func (a *asked) Revoke(_ context.Context, grant string) error {
	a.revoked = append(a.revoked, grant)
	return nil
}

// TestNoCallWithoutPermission: before each call a check names the rule or grant that covers it. A
// person is asked once for all that is missing, before the first call, with capability, tool,
// intent and duration; after a no, or where nobody can be asked, the call is skipped and the turn
// goes on (S2-27, S2-28, S2-29, S2-30, S2-32, S2-33). Permissions for the turn are taken back at
// its end (S2-44).
func TestNoCallWithoutPermission(t *testing.T) {
	write := ToolCall{"tool.fs.write", json.RawMessage(`{"path":"b","content":"x"}`)}
	read := ToolCall{"tool.fs.read", json.RawMessage(`{"path":"a"}`)}
	for name, c := range map[string]struct {
		person  *asked
		waits   bool
		made    int
		by      string
		revoked int
		code    capabilities.Code
	}{
		"yes":               {&asked{yes: true}, false, 2, "rule", 1, ""},
		"for the session":   {&asked{yes: true, session: true}, false, 2, "rule", 0, ""},
		"no":                {&asked{}, true, 1, "", 0, capabilities.CodeConsentDenied},
		"headless":          {nil, false, 1, "", 0, capabilities.CodeConsentUnavailable},
		"asked at the call": {nil, true, 2, AtTheCall, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := &listed{tools: []capabilities.ToolID{"tool.fs.read", "tool.fs.write"}, asks: []capabilities.ToolID{"tool.fs.write"}}
			h := &gullible{script: [][]ToolCall{{write}, {read}}}
			var checks []Checked
			var cleaned Cleaned
			r, err := router.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Gateway: g, Router: r, Harness: h, Waits: c.waits, Tell: func(e Event) {
				switch b := e.Body.(type) {
				case Checked:
					checks = append(checks, b)
				case Cleaned:
					cleaned = b
				}
			}}
			if c.person != nil {
				c.person.g = g
				o.Permits = c.person
			}
			e, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			out, err := e.Run(t.Context(), "/file write b")
			if err != nil || len(g.calls) != c.made || len(out.Calls) != 2 {
				t.Fatalf("%+v, %v, called %q", out, err, g.calls)
			}
			if want := []Checked{{"tool.fs.write", "FileAccess", c.by}, {"tool.fs.read", "FileAccess", "rule"}}; !slices.Equal(checks, want) {
				t.Errorf("checks %+v, want %+v", checks, want)
			}
			if out.Calls[0].Code != c.code || c.code != "" && !strings.HasPrefix(out.Calls[0].Why, "permission denied: no active token") {
				t.Errorf("%+v", out.Calls[0])
			}
			if cleaned.PermissionsRevoked != c.revoked {
				t.Errorf("%d revoked, want %d", cleaned.PermissionsRevoked, c.revoked)
			}
			if c.person == nil {
				return
			}
			if len(c.person.seen) != 1 || len(c.person.revoked) != c.revoked {
				t.Fatalf("%+v", c.person)
			}
			if q := c.person.seen[0]; q.Intent != "file_task" || q.For != LeaseFor || !slices.Equal(q.Wanted, []Wanted{{"tool.fs.write", "FileAccess", "n-1", "desk"}}) {
				t.Errorf("asked %+v", q)
			}
		})
	}
}

// TestAQuestionIsAboutWhatIsLikely: of all that an intent allows, a person is asked ahead about
// what the message is likely to need; another tool is asked about when it is called (S2-29,
// S2-34).
func TestAQuestionIsAboutWhatIsLikely(t *testing.T) {
	g := &listed{tools: []capabilities.ToolID{"tool.fs.read", "tool.fs.write", "tool.fs.edit"}, asks: []capabilities.ToolID{"tool.fs.write", "tool.fs.edit"}}
	person := &asked{g: g, yes: true}
	r, err := router.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var checks []Checked
	h := &gullible{script: [][]ToolCall{{{"tool.fs.edit", json.RawMessage(`{"path":"b"}`)}}}}
	e, err := New(Options{Gateway: g, Router: r, Harness: h, Permits: person, Tell: func(e Event) {
		if b, ok := e.Body.(Checked); ok {
			checks = append(checks, b)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]int{"/file read b": 0, "/file write b": 1} {
		person.seen, g.granted, g.calls, h.turns, checks = nil, false, nil, nil, nil
		if _, err := e.Run(t.Context(), message); err != nil {
			t.Fatal(err)
		}
		if len(person.seen) != want || want == 1 && (len(person.seen[0].Wanted) != 1 || person.seen[0].Wanted[0].Tool != "tool.fs.write") {
			t.Errorf("%s: asked %+v", message, person.seen)
		}
		if want == 0 && (len(checks) != 1 || checks[0].By != AtTheCall || len(g.calls) != 1) {
			t.Errorf("%s: checks %+v, calls %q", message, checks, g.calls)
		}
	}
}
