package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// Of what nobody named a person is asked, and what they permit is resolved after their answer: of
// what is inside, or blocked, or of a way that leads nowhere nobody is asked (S1-50).
func TestAPersonIsAskedAboutAHost(t *testing.T) {
	w := mustWay(t, "named.example")
	if err := w.Narrow(nil, []string{"*.blocked.example"}); err != nil {
		t.Fatal(err)
	}
	n := names{"named.example": {"8.8.8.8"}, "asked.example": {"8.8.4.4"}, "inside.example": {"10.0.0.1"}}
	w.rules.Lookup = n.lookup
	var asked []string
	life, over := context.WithCancel(t.Context())
	defer over()
	answer := error(nil)
	one := w.For(func(_ context.Context, target string) (context.Context, error) {
		asked = append(asked, target)
		return life, answer
	})
	for _, c := range []struct {
		host, port string
		asks       bool
		code       capabilities.Code
	}{
		{"named.example", "443", false, ""},
		{"asked.example", "443", true, ""},
		{"ASKED.example.", "8443", true, ""},
		{"8.8.4.4", "443", true, ""},
		{"inside.example", "443", true, capabilities.CodeURLBlocked}, // it is found out after the answer
		{"a.blocked.example", "443", false, capabilities.CodeURLBlocked},
		{"127.0.0.1", "443", false, capabilities.CodeURLBlocked}, {"10.0.0.1", "443", false, capabilities.CodeURLBlocked}, {"::ffff:10.0.0.1", "443", false, capabilities.CodeURLBlocked},
		{"169.254.169.254", "80", false, capabilities.CodeURLBlocked}, {"localhost", "443", false, capabilities.CodeURLBlocked}, {"a.localhost", "443", false, capabilities.CodeURLBlocked},
		{FilesDomain, "80", false, capabilities.CodeURLBlocked}, {"no such", "80", false, capabilities.CodeURLBlocked}, {strings.Repeat("a.", 60) + "example", "80", false, capabilities.CodeURLBlocked},
	} {
		asked = nil
		until, addrs, err := one.resolve(t.Context(), c.host, c.port)
		if capabilities.CodeOf(err) != c.code || (len(asked) == 1) != c.asks || err == nil && (len(addrs) == 0 || (until != nil) != c.asks) {
			t.Errorf("%s:%s: asked %q; %v, %v", c.host, c.port, asked, addrs, err)
		}
	}

	// A no is told with the refusal; one of the system's is the refusal as ever.
	for said, want := range map[error]string{
		capabilities.Errorf(capabilities.CodeConsentDenied, "a person who was asked said no"): "other.example:443 may not be reached: nobody named it, and a person who was asked said no.",
		&capabilities.Error{Code: capabilities.CodeConsentUnavailable}:                        "other.example:443 may not be reached: nobody named it.",
		errors.New("broken"): "other.example:443 may not be reached: nobody named it.",
	} {
		answer = said
		err := one.Admits(t.Context(), "other.example", "443", nil)
		if e := capabilities.AsError(err); e.Code != capabilities.CodeURLBlocked || e.PublicMessage() != want || !strings.Contains(e.PublicHint(), "--net other.example") {
			t.Errorf("%v: %s %s", said, e.PublicMessage(), e.PublicHint())
		}
	}
	if r := w.Refused(); !slices.ContainsFunc(r, func(r Refused) bool { return r.Target == "other.example:443" && r.Count == 3 }) {
		t.Errorf("%+v", r)
	}

	// A way to nowhere asks nobody, and a permission is its own call's alone.
	answer, asked = nil, nil
	if err := mustWay(t).For(one.ask).Admits(t.Context(), "asked.example", "443", nil); err == nil || asked != nil {
		t.Errorf("%v %v", asked, err)
	}
	if err := w.Admits(t.Context(), "asked.example", "443", nil); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		t.Error(err)
	}
	var none *Way
	if none.For(one.ask) != nil || w.For(nil) != w {
		t.Error("there is nothing to ask about, or nobody to ask")
	}
}

// A connection that a person permitted ends with its call, also in the middle.
func TestWhatIsLentEnds(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	life, over := context.WithCancel(t.Context())
	lent := lend(ours, life)
	over()
	if _, err := io.ReadAll(lent); err == nil {
		t.Error("it goes on")
	}
}
