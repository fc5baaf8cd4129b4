package governance

import (
	"cmp"
	"context"
	"sort"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// Compliance returns what is held against the records of a time, and which part of the ledger
// those are (S1-17, S1-59).
func (m *Model) Compliance(ctx context.Context, in Span) (api.Compliance, error) {
	s, about, err := m.about(ctx, in)
	out := api.Compliance{GovernanceSpan: about, Checks: []api.ComplianceCheck{}, Artifacts: []api.RetentionRow{}}
	if err != nil {
		return out, err
	}
	if out.FirstSeq, err = m.seqAt(ctx, s.from); err != nil {
		return out, err
	}
	next, err := m.seqAt(ctx, s.to)
	if err != nil {
		return out, err
	}
	out.LastSeq = next - 1
	wanted, err := m.keyed(ctx, s, capabilities.KeyMasked)
	if err != nil {
		return out, err
	}
	done, err := m.sums(ctx, s, masked, byA)
	if err != nil {
		return out, err
	}
	pii := api.ComplianceCheck{
		Name: "pii_masked", Records: wanted,
		Definition: "Calls granted data.access.pii_masked, and those of them whose end says that what they returned was masked. One that still " +
			"runs is missing, too.",
	}
	for _, one := range done {
		if one.a == "calls" {
			pii.Held = one.n
		}
	}
	out.Checks = append(out.Checks, settled(pii))
	kept, err := m.sums(ctx, s, retained, byA)
	if err != nil {
		return out, err
	}
	for _, one := range kept {
		out.Artifacts = append(out.Artifacts, api.RetentionRow{Retention: one.a, Recorded: one.n})
	}
	sort.Slice(out.Artifacts, func(i, j int) bool { return out.Artifacts[i].Retention < out.Artifacts[j].Retention })
	if m.opts.Retained != nil {
		standard, extended, err := m.opts.Retained(ctx)
		if err != nil {
			return out, err
		}
		out.Checks = append(out.Checks,
			settled(api.ComplianceCheck{Name: "retention_standard", Records: standard.Kept, Held: standard.Kept - standard.Overdue,
				Definition: "Artifacts without data.retention.extended that there are now, and those of them whose time is not over."}),
			settled(api.ComplianceCheck{Name: "retention_extended", Records: extended.Kept, Held: extended.Kept - extended.Overdue,
				Definition: "Artifacts of calls granted data.retention.extended that there are now, and those of them whose time is not over."}))
	}
	return out, nil
}

func settled(c api.ComplianceCheck) api.ComplianceCheck {
	c.Missing = max(0, c.Records-c.Held)
	c.Met = c.Missing == 0
	return c
}

// keyed is how many calls were carried out with a key.
func (m *Model) keyed(ctx context.Context, s span, key string) (n int64, _ error) {
	list, err := m.sums(ctx, s, used, byA)
	for _, one := range list {
		if one.a == key {
			n += one.n
		}
	}
	return n, err
}

// seqAt returns the sequence number of the first packet at or after a time; one more than the last
// if there is none. Packets are in the order of their times.
func (m *Model) seqAt(ctx context.Context, at time.Time) (uint64, error) {
	low, high := uint64(0), uint64(0)
	high, _ = m.opts.Ledger.Tip()
	for low < high { // the packet is behind low, and not behind high+1
		middle := low + (high-low)/2
		list, err := m.opts.Ledger.Packets(ctx, ledger.Query{After: middle, Limit: 1})
		if err != nil {
			return 0, err
		}
		if len(list) == 0 || !list[0].Time().Before(at) {
			high = middle
		} else {
			low = list[0].Seq
		}
	}
	return low + 1, nil
}

// Since returns the sequence number after which the packets of a time stand.
func (m *Model) Since(ctx context.Context, at time.Time) (uint64, error) {
	seq, err := m.seqAt(ctx, at)
	return seq - min(seq, 1), err
}

// Profiles returns under which profile and policy snapshot tools were decided: the way from a tool
// down to its calls (S1-55).
func (m *Model) Profiles(ctx context.Context, in Span) (api.Profiles, error) {
	s, about, err := m.about(ctx, in)
	out := api.Profiles{GovernanceSpan: about, Rows: []api.ProfileRow{}}
	if err != nil {
		return out, err
	}
	list, err := m.sums(ctx, s, profiles, byTool, byA, byB)
	for _, one := range list {
		out.Rows = append(out.Rows, api.ProfileRow{Tool: one.tool, Profile: one.a, Snapshot: one.b, Decisions: one.n})
	}
	sort.Slice(out.Rows, func(i, j int) bool {
		a, b := out.Rows[i], out.Rows[j]
		return cmp.Or(cmp.Compare(b.Decisions, a.Decisions), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Profile, b.Profile),
			cmp.Compare(a.Snapshot, b.Snapshot)) < 0
	})
	out.Rows, out.GovernanceRows = rowsOf(in, out.Rows)
	return out, err
}

// Changes returns what policy decides otherwise since it changed last: each row of Friction from
// then on, beside the same in a time of that length before.
func (m *Model) Changes(ctx context.Context, in Span) (api.Changes, error) {
	last, err := m.opts.Ledger.Packets(ctx, ledger.Query{Kind: kindActivated, Newest: true, Limit: 1})
	if err != nil {
		return api.Changes{}, err
	}
	out := api.Changes{Rows: []api.ChangeRow{}}
	if len(last) > 0 {
		out.Activated, out.Packet, in.From = last[0].Time().UTC(), last[0].Seq, last[0].Time()
		in.To = time.Time{}
		var a packet.Activated
		if json.Unmarshal(last[0].Body, &a) == nil {
			out.Snapshot, out.Replaced, out.By, out.Reason = a.Snapshot, a.Before, last[0].Principal, a.Reason
		}
	}
	now, err := m.Friction(ctx, Span{From: in.From, To: in.To, Tool: in.Tool})
	if err != nil {
		return out, err
	}
	out.GovernanceSpan = now.GovernanceSpan
	before, err := m.Friction(ctx, Span{From: now.From.Add(-now.To.Sub(now.From)), To: now.From, Tool: in.Tool})
	if err != nil {
		return out, err
	}
	rows := map[api.FrictionRow]*api.ChangeRow{}
	note := func(list []api.FrictionRow, to func(*api.ChangeRow) *int64) {
		for _, r := range list {
			n := r.Calls
			r.Calls = 0
			if rows[r] == nil {
				rows[r] = &api.ChangeRow{Effect: r.Effect, Tool: r.Tool, Rule: r.Rule, Key: r.Key, Code: r.Code}
			}
			*to(rows[r]) += n
		}
	}
	note(now.Rows, func(r *api.ChangeRow) *int64 { return &r.Calls })
	note(before.Rows, func(r *api.ChangeRow) *int64 { return &r.Before })
	for _, r := range rows {
		if r.Calls != r.Before {
			out.Rows = append(out.Rows, *r)
		}
	}
	sort.Slice(out.Rows, func(i, j int) bool {
		a, b := out.Rows[i], out.Rows[j]
		return cmp.Or(cmp.Compare(change(b), change(a)), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Tool, b.Tool),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Key, b.Key)) < 0
	})
	out.Rows, out.GovernanceRows = rowsOf(in, out.Rows)
	return out, nil
}

func change(r api.ChangeRow) int64 { return max(r.Calls-r.Before, r.Before-r.Calls) }
