package runner

import (
	"context"
	"slices"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/sealed"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// memory is a Journal that notes the order of things.
type memory struct{ said []string }

func (m *memory) Started(context.Context, *wire.Ticket) error {
	m.said = append(m.said, "started")
	return nil
}

func (m *memory) Finished(_ capabilities.CallID, a *wire.Answer) error {
	m.said = append(m.said, "finished "+string(a.Code))
	return nil
}

func (m *memory) States(context.Context, *wire.JournalAsk) []wire.JournalState { return nil }

// A delivery of the gateway's must be sealed for this very call; nothing else reaches the handler,
// and the journal has the start before the gateway is asked.
func TestOnlyTheCallsOwnSecretIsCarriedOut(t *testing.T) {
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	ticket := func() *wire.Ticket {
		return &wire.Ticket{
			Call: "c1", Tool: "tool.secret.copy-to-node-clipboard", Capability: "tyrum.desktop.clipboard-write", Lane: "l", Node: "n1",
			Args: []byte(`{"secret_ref_id":"sec1"}`), Envelope: []byte("e"), Grants: []string{"data.write.clipboard", capabilities.KeySecret}, LifetimeMS: 60000, DeadlineMS: 60000,
		}
	}
	right := func(t *wire.Ticket) sealed.Binding {
		return sealed.Binding{Node: t.Node, Call: t.Call, Tool: t.Tool, Envelope: t.Envelope, Grants: t.Grants}
	}
	other := func(change func(*sealed.Binding)) func([]byte) (*wire.Sealed, error) {
		return func(key []byte) (*wire.Sealed, error) {
			b := right(ticket())
			change(&b)
			text, err := sealed.Seal(key, b, capabilities.NewSecret([]byte("hunter22")))
			return &wire.Sealed{Bytes: text}, err
		}
	}
	for name, c := range map[string]struct {
		seal func([]byte) (*wire.Sealed, error)
		code capabilities.Code
	}{
		"right":         {other(func(*sealed.Binding) {}), ""},
		"another call":  {other(func(b *sealed.Binding) { b.Call = "c2" }), capabilities.CodeTicketInvalid},
		"another node":  {other(func(b *sealed.Binding) { b.Node = "n2" }), capabilities.CodeTicketInvalid},
		"another grant": {other(func(b *sealed.Binding) { b.Grants = nil }), capabilities.CodeTicketInvalid},
		"decision":      {other(func(b *sealed.Binding) { b.Envelope = []byte("f") }), capabilities.CodeTicketInvalid},
		"noise":         {func([]byte) (*wire.Sealed, error) { return &wire.Sealed{Bytes: make([]byte, 400)}, nil }, capabilities.CodeTicketInvalid},
		"nothing": {func([]byte) (*wire.Sealed, error) {
			return nil, &capabilities.Error{Code: capabilities.CodeNodeDisconnected}
		}, capabilities.CodeNodeDisconnected},
	} {
		j, got := &memory{}, ""
		h := &handler{offers: []capabilities.CapabilityID{"tyrum.desktop.clipboard-write"}, handle: func(_ context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
			got = string(inv.Secret.Reveal())
			if string(inv.Args) != `{"clear_after_ms":60000,"concealed":true}` {
				t.Errorf("args %s", inv.Args)
			}
			return capabilities.Output{Result: map[string]string{"status": "ok"}}, nil
		}}
		r, err := New(Options{Handlers: []capabilities.Handler{h}, Catalog: cat, Guard: guardFunc(admit), Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		s := &sink{seal: func(key []byte) (*wire.Sealed, error) {
			if len(j.said) != 1 || j.said[0] != "started" {
				t.Errorf("%s: asked for the secret after %v", name, j.said)
			}
			return c.seal(key)
		}}
		r.Serve(t.Context(), ticket(), s)
		a := s.answers[0]
		if a.Code != c.code || (got == "hunter22") != (c.code == "") || got != "" && c.code != "" {
			t.Errorf("%s: %s, the handler got %q", name, a.Code, got)
		}
		if c.code == "" && string(a.Output) != `{"secret_ref_id":"sec1","status":"ok"}` {
			t.Errorf("%s", a.Output)
		}
		if len(j.said) != 2 || j.said[1] != "finished "+string(c.code) {
			t.Errorf("%s: journal %v", name, j.said)
		}
		seen := slices.ContainsFunc(a.Observed, func(o wire.Observation) bool {
			return o.Key == capabilities.KeySecret && o.Detail == "sec1" && !o.Refused
		})
		if seen != (c.code == "") {
			t.Errorf("%s: observed %+v", name, a.Observed)
		}
	}

	// A call that was not granted secrets does not even ask, and the gateway hears of it (S1-46).
	h := &handler{offers: []capabilities.CapabilityID{"tyrum.desktop.clipboard-write"}, handle: ok}
	r, err := New(Options{Handlers: []capabilities.Handler{h}, Catalog: cat, Guard: guardFunc(admit), Journal: &memory{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{seal: func([]byte) (*wire.Sealed, error) {
		t.Error("it asked")
		return nil, &capabilities.Error{Code: capabilities.CodeInternal}
	}}
	less := ticket()
	less.Grants = []string{"data.write.clipboard"}
	r.Serve(t.Context(), less, s)
	if a := s.answers[0]; a.Code != capabilities.CodeDriftCritical || len(a.Observed) != 1 || a.Observed[0].Key != capabilities.KeySecret || !a.Observed[0].Refused {
		t.Errorf("%+v", a)
	}
}
