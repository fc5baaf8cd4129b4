package runner

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// widens makes the envelope that a yes brings: the one of before with those keys besides.
func widens(t *testing.T, profile *policy.Profile, from *policy.Sealed, keys ...string) *policy.Sealed {
	t.Helper()
	in := policy.EnvelopeInput{
		Profile: profile, Principal: "agent", Lane: "main", Policy: "sha256:p", ArgsDigest: make([]byte, 32), Created: time.Unix(1, 0), Expires: time.Unix(100, 0),
	}
	if from != nil {
		in.Escalation = &policy.Escalation{Code: policy.EscalatedByCall, Delta: keys, From: from.HashHex(), Reason: "a person let it"}
	}
	s, err := policy.BuildEnvelope(in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A call asks about each host once and about five at most, takes a yes only with its own envelope
// and that host in it, and what it was permitted ends with it.
func TestACallAsksAboutHosts(t *testing.T) {
	profile := &policy.Profile{Tool: "tool.fixture.echo", Version: "1", ManifestHash: "sha256:m", ID: "sha256:i", Keys: []string{capabilities.KeyEgress}, Risk: policy.RiskMedium, Isolation: capabilities.ClassT2, Consent: "call"}
	first := widens(t, profile, nil)
	var mu sync.Mutex
	asked := map[string]int{}
	out := &sink{answerHost: func(m wire.HostAsk) (*wire.HostAnswer, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[m.Target]++
		switch m.Target {
		case "no.example:443":
			return &wire.HostAnswer{Code: capabilities.CodeConsentDenied}, nil
		case "other.example:443": // an envelope with another host
			return &wire.HostAnswer{Envelope: widens(t, profile, first, capabilities.NarrowDomains+"evil.example:443").Bytes}, nil
		case "wider.example:443":
			return &wire.HostAnswer{Envelope: widens(t, profile, first, capabilities.NarrowDomains+m.Target, "data.read.camera").Bytes}, nil
		case "twice.example:443":
			return &wire.HostAnswer{Envelope: widens(t, profile, widens(t, profile, first, "data.read.camera"), capabilities.NarrowDomains+m.Target).Bytes}, nil
		}
		return &wire.HostAnswer{Envelope: widens(t, profile, first, capabilities.NarrowDomains+m.Target).Bytes}, nil
	}}
	s := &started{placed: &placed{admitted: &admitted{arrived: &arrived{
		r: &Runner{opts: Options{Guard: guardFunc(admit)}}, sink: out, log: slog.New(slog.DiscardHandler), t: &wire.Ticket{Call: "c1", Tool: "tool.fixture.echo", Lane: "main", Envelope: first.Bytes, ArgsDigest: sha256.Sum256(nil)},
	}}}}
	ask, over := s.reaching(t.Context())
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if until, err := ask(t.Context(), "yes.example:443"); err != nil || until.Err() != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for target, code := range map[string]capabilities.Code{
		"no.example:443": capabilities.CodeConsentDenied, "other.example:443": capabilities.CodeTicketInvalid, "wider.example:443": capabilities.CodeTicketInvalid, "twice.example:443": capabilities.CodeTicketInvalid,
	} {
		for range 2 {
			if _, err := ask(t.Context(), target); capabilities.CodeOf(err) != code {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	if _, err := ask(t.Context(), "sixth.example:443"); capabilities.CodeOf(err) != capabilities.CodeConsentDenied {
		t.Error(err)
	}
	until, err := ask(t.Context(), "yes.example:443")
	if err != nil || fmt.Sprint(asked) != "map[no.example:443:1 other.example:443:1 twice.example:443:1 wider.example:443:1 yes.example:443:1]" {
		t.Errorf("%v %v", asked, err)
	}
	over()
	if until.Err() == nil {
		t.Error("the permission outlives its call")
	}
	if _, err := ask(context.Background(), "late.example:443"); err == nil {
		t.Error("a call that is over asks")
	}
}
