package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// S1-06, S1-07, S1-60, S1-67: the person who is asked sees the envelope that was decided on,
// the device got the one that its yes made, and the ledger and the list of calls have
// the same, by their addresses. The page of the tool offers by the same keys, and the numbers of
// governance count by them.
func TestOneEnvelopeEverywhere(t *testing.T) {
	s := site.Start(t, site.Options{ApprovalWait: time.Minute, Rules: site.Rules +
		`@id("only-asked") forbid (principal, action in Action::"keys:privileged", resource) unless { context.consent };`})
	n := s.AddNode("desk", site.NewHandler())
	n.AwaitReady()
	done := make(chan capabilities.Result, 1)
	go func() { done <- s.Call(context.Background(), site.ToolPress, `{"text":"x"}`, "") }()
	var asked consent.Approval
	for deadline := time.After(time.Minute); asked.ID == ""; {
		changed := s.Consent.Changed()
		if all := s.Consent.Approvals(); len(all) == 1 {
			asked = all[0]
			break
		}
		select {
		case <-changed:
		case r := <-done:
			t.Fatalf("not asked: %+v", r)
		case <-deadline:
			t.Fatal("nobody was asked")
		}
	}
	e := asked.Envelope
	if e == nil || len(asked.Escalated) == 0 {
		t.Fatalf("the question has no envelope: %+v", asked)
	}
	for _, k := range asked.Escalated {
		if slices.Contains(e.Grants, k) || !slices.Contains(asked.Keys, k) {
			t.Errorf("%s: granted %v, asked about %v", k, e.Grants, asked.Keys)
		}
	}
	if _, err := s.Consent.Answer(t.Context(), asked.ID, consent.Answer{Allow: true, By: "anna"}); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.Status != capabilities.StatusOK {
		t.Fatalf("%+v", r)
	}

	packets, err := s.Ledger.Packets(t.Context(), ledger.Query{Call: r.Call})
	if err != nil {
		t.Fatal(err)
	}
	var recorded []*policy.Summary
	for _, p := range packets {
		var d struct {
			Hash     string          `json:"envelope_hash"`
			Envelope *policy.Summary `json:"envelope"`
		}
		if p.Kind != ledger.KindCallDecision {
			continue
		}
		if err := json.Unmarshal(p.Body, &d); err != nil || d.Envelope == nil {
			t.Fatalf("%v %s", err, p.Body)
		}
		d.Envelope.Hash = d.Hash
		recorded = append(recorded, d.Envelope)
	}
	if len(recorded) != 2 {
		t.Fatalf("%d decisions", len(recorded))
	}
	same := func(where string, got, want *policy.Summary) {
		t.Helper()
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if got == nil || string(a) != string(b) {
			t.Errorf("%s: %s, the ledger has %s", where, a, b)
		}
	}
	same("the question", e, recorded[0])
	if r.EnvelopeHash != recorded[1].Hash {
		t.Errorf("the answer names %q, the ledger %q", r.EnvelopeHash, recorded[1].Hash)
	}

	log, err := journal.Read(journal.Dir(n.Dir, string(n.ID)), string(n.ID))
	if err != nil {
		t.Fatal(err)
	}
	started := slices.IndexFunc(log.Records, func(r journal.Record) bool { return r.Kind == journal.KindStarted })
	if started < 0 || log.Records[started].Envelope != recorded[1].Hash {
		t.Errorf("the device's log: %+v, the ledger %s", log.Records, recorded[1].Hash)
	}

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/v1/calls", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.MustToken("anna", principal.RoleAdmin))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Calls []struct {
			Envelope *policy.Summary `json:"envelope"`
		} `json:"calls"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || len(list.Calls) != 1 {
		t.Fatalf("%v, %d calls", err, len(list.Calls))
	}
	same("the list of calls", list.Calls[0].Envelope, recorded[1])

	admin := newCaller(t, s.URL(), s.MustToken("ada", principal.RoleAdmin))
	var tool api.Tool
	admin.ok(http.MethodGet, "/v1/tools/"+string(site.ToolPress), "", &tool)
	declared := recorded[1].Capabilities
	if !slices.Equal(slices.Sorted(slices.Values(tool.Manifest)), slices.Sorted(slices.Values(declared.Keys()))) || tool.Surface == nil || tool.Surface.Mode != api.ModeElevated {
		t.Errorf("the tool's page has %v and %+v, the envelope %v", tool.Manifest, tool.Surface, declared.Keys())
	}
	var profiles api.Profiles
	admin.ok(http.MethodGet, "/v1/governance/profiles?tool="+string(site.ToolPress), "", &profiles)
	for _, e := range recorded {
		if !slices.ContainsFunc(profiles.Rows, func(r api.ProfileRow) bool { return r.Profile == e.Profile && r.Snapshot == e.Snapshot }) {
			t.Errorf("governance has %+v, not %s under %s", profiles.Rows, e.Profile, e.Snapshot)
		}
	}
	var coverage api.Coverage
	admin.ok(http.MethodGet, "/v1/governance/coverage?tool="+string(site.ToolPress), "", &coverage)
	for _, key := range declared.Keys() {
		if !slices.ContainsFunc(coverage.Rows, func(r api.CoverageRow) bool { return r.Key == key && r.Declared == 2 && r.Executions == 1 }) {
			t.Errorf("governance has %+v, the envelopes declare %s", coverage.Rows, key)
		}
	}
	var isolation api.Isolation
	admin.ok(http.MethodGet, "/v1/governance/isolation?tool="+string(site.ToolPress), "", &isolation)
	if len(isolation.Rows) != 1 || isolation.Rows[0].Class != recorded[1].Isolation {
		t.Errorf("governance has %+v, the envelope %s", isolation.Rows, recorded[1].Isolation)
	}
}
