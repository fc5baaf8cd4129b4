package governance

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// cellsOf are the numbers that one packet adds.
func cellsOf(p *ledger.Packet, w words) map[cell]int64 {
	all := map[cell]int64{}
	fold(p, w, func(c cell, n int64) { all[c] += n })
	return all
}

// A body is read as encoding/json reads it, or left to it. Members that nobody counts are not
// looked at, so one that is wrong there fails with encoding/json alone.
func sameScan(t *rapid.T, body []byte) {
	w := words{}
	if got, e, ok := w.decision(body); ok {
		var want packet.Decision
		if err := json.Unmarshal(body, &want); err == nil && !reflect.DeepEqual(readOf(&got, e), readOf(&want, want.Summary())) {
			t.Fatalf("%s\nread as %+v %+v\nis %+v", body, got, e, want)
		}
	}
	if got, ok := w.dispatch(body); ok {
		var want packet.Dispatch
		if err := json.Unmarshal(body, &want); err == nil && !reflect.DeepEqual([]any{keysOf(got.Grants), got.Isolation, got.Given}, []any{keysOf(want.Grants), want.Isolation, want.Given}) {
			t.Fatalf("%s\nread as %+v\nis %+v", body, got, want)
		}
	}
	if got, ok := w.end(body); ok {
		var want packet.End
		if err := json.Unmarshal(body, &want); err == nil && !reflect.DeepEqual(cellsOf(&ledger.Packet{Kind: ledger.KindCallResult, Body: body}, w), endCells(&want)) {
			t.Fatalf("%s\nread as %+v\nis %+v", body, got, want)
		}
	}
}

// endCells are the numbers of an end that was read by reflection: its escaped form takes that way.
func endCells(e *packet.End) map[cell]int64 {
	all := map[cell]int64{}
	countEnd("", e, func(c cell, n int64) { all[c] += n })
	return all
}

// readOf is what a fold looks at of a decision, an empty list as none.
func readOf(d *packet.Decision, e *policy.Summary) []any {
	list := func(l []string) []string {
		if len(l) == 0 {
			return nil
		}
		return l
	}
	all := []any{d.Effect, d.Code, list(d.Policies), d.Snapshot, d.Grant, d.Degraded, list(d.Withheld), d.Reason == reasonPolicy, e != nil}
	if e != nil {
		c := &e.Capabilities
		all = append(all, e.Profile, e.Isolation, list(e.Grants), list(c.Data), list(c.Execution), list(c.Network), list(c.Privileged), list(c.UI))
	}
	return all
}

func TestScanIsWhatJSONSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom([]string{"", "a", `"`, `\`, `\\"`, "}", "],", "é", "\u2028", "\n"}), rapid.StringN(0, 8, -1))
		list := rapid.SliceOfN(text, 0, 3)
		value := rapid.OneOf(rapid.Map(text, func(s string) any { return s }), rapid.Map(list, func(l []string) any { return l }),
			rapid.Map(rapid.Int64Range(-9, 9), func(n int64) any { return n }), rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](map[string]any{"a": []any{map[string]any{}, "}"}}))
		members := map[string]any{}
		for _, name := range []string{"effect", "code", "policies", "policy_snapshot_id", "grant", "isolation_degraded", "reason", "withheld_keys", "grants", "isolation_class", "isolation_given", "masked", "duration_ms", "did"} {
			if rapid.IntRange(0, 3).Draw(t, name+"?") == 0 {
				members[name] = value.Draw(t, name)
			}
		}
		if rapid.Bool().Draw(t, "decided") {
			members["effect"] = rapid.SampledFrom([]string{"allow", "ask", "deny"}).Draw(t, "effect")
		}
		if rapid.Bool().Draw(t, "envelope") {
			members["envelope"] = map[string]any{"capabilities": map[string]any{"data": list.Draw(t, "data"), "ui": list.Draw(t, "ui"), "more": value.Draw(t, "more")},
				"capability_profile_id": text.Draw(t, "profile"), "effective_grants": list.Draw(t, "effective"), "isolation_class": "t2", "v": 1}
		}
		if rapid.Bool().Draw(t, "seen") {
			members["observed"] = []any{map[string]any{"key": text.Draw(t, "key"), "count": 2, "detail": text.Draw(t, "detail"), "of_call": rapid.SampledFrom([]string{"", "call-1"}).Draw(t, "of")}}
			members["artifacts"] = []any{map[string]any{"artifact_id": "a", "mime": "b/c", "size": 1, "retention": text.Draw(t, "retention")}}
		}
		body, err := canonical.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		sameScan(t, body)
	})
}

// The bodies that the dispatcher writes are read without reflection, which makes a fold quick.
func TestScanReadsWhatCallsWrite(t *testing.T) {
	h, r := newHouse(t), rand.New(rand.NewPCG(3, 4))
	var drafts []ledger.Draft
	for len(drafts) < 400 {
		drafts = append(drafts, random(r)...)
	}
	h.put(t, drafts...)
	slow, seen := 0, 0
	if err := h.ledger.Since(t.Context(), 0, func(p *ledger.Packet) error {
		ok, w := true, words{}
		switch p.Kind {
		case ledger.KindCallDecision:
			_, _, ok = w.decision(p.Body)
		case ledger.KindCallDispatch:
			_, ok = w.dispatch(p.Body)
		case ledger.KindCallResult, ledger.KindCallFailed:
			_, ok = w.end(p.Body)
		default:
			return nil
		}
		if seen++; !ok && string(p.Body) != `{"effect":[]}` {
			slow++
			t.Errorf("%s is left to reflection: %s", p.Kind, p.Body)
		}
		return nil
	}); err != nil || seen < 100 {
		t.Fatal(seen, slow, err)
	}
}
