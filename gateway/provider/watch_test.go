package provider

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// A host that still says that a tool changed, soon after a person approved it, may not have heard
// of that. One that goes on to say so has other words than were approved: the tool goes into
// review again, though nothing else happens (S4-42).
func TestAnApprovalOfOldWordsDoesNotHold(t *testing.T) {
	b, _, _, roster := entrusting(t)
	now := time.Now()
	b.opts.Now = func() time.Time { return now }
	tool := &b.all["words"].Tools[0]
	roster.Roster[0].Readiness[tool.Capability] = capabilities.Readiness{Capability: tool.Capability, Reason: capabilities.ReasonManifestChanged}
	b.fresh[tool.Described.Tool] = now
	follow(t, b)
	if got := b.all["words"].Tools[0].State; got != Active {
		t.Errorf("at once it is %s", got)
	}
	// A diff does not say that it is as approved meanwhile.
	if d, err := b.Diff(t.Context(), tool.Described.Tool); err != nil || !d.Unseen {
		t.Errorf("at once its diff is %+v, %v", d, err)
	}
	if p := b.pause(); p <= 0 || p > freshFor+time.Second {
		t.Errorf("it looks again in %s", p)
	}
	now = now.Add(freshFor + time.Second)
	follow(t, b)
	if got := b.all["words"].Tools[0].State; got != Review {
		t.Errorf("later it is %s", got)
	}
}
