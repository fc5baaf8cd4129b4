package guard

import (
	"context"
	"testing"

	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// desk answers as a test says.
type desk struct {
	asked  []owner.Call
	answer func() *capabilities.Error
	used   int
}

func (d *desk) Ask(_ context.Context, c owner.Call) *capabilities.Error {
	d.asked = append(d.asked, c)
	return d.answer()
}

func (d *desk) Used() { d.used++ }

// A call that the owner wants to be asked about runs after a yes, and only if nothing that forbids
// it came meanwhile.
func TestTheOwnerIsAsked(t *testing.T) {
	const asks = `permit(principal, action, resource) when { context.consent };`
	yes := func() *capabilities.Error { return nil }
	for name, tt := range map[string]struct {
		rules  string
		answer func(f *fixture, rules *string) *capabilities.Error
		want   capabilities.Code
		asked  int
	}{
		"a yes": {asks, nil, "", 1},
		"a no": {asks, func(*fixture, *string) *capabilities.Error {
			return &capabilities.Error{Code: capabilities.CodeConsentDenied}
		}, capabilities.CodeConsentDenied, 1},
		"no answer": {asks, func(*fixture, *string) *capabilities.Error {
			return &capabilities.Error{Code: capabilities.CodeApprovalPending}
		}, capabilities.CodeApprovalPending, 1},
		"a stop meanwhile":  {asks, func(f *fixture, _ *string) *capabilities.Error { _ = f.stop.Set(1, true); return nil }, capabilities.CodeStopped, 1},
		"a never meanwhile": {asks, func(_ *fixture, rules *string) *capabilities.Error { *rules = ""; return nil }, capabilities.CodeDeniedByNode, 1},
		"nothing to ask":    {permitAll, nil, "", 0},
		"never":             {"", nil, capabilities.CodeDeniedByNode, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, permitAll)
			rules := tt.rules
			d := &desk{answer: yes}
			if tt.answer != nil {
				d.answer = func() *capabilities.Error { return tt.answer(f, &rules) }
			}
			f.guard.opts.Desk = d
			f.guard.opts.Owner = func(r policy.Request) policy.Decision { return mustEngine(t, rules).Decide(r) }
			f.guard.opts.Shown = func(capabilities.ToolID, []byte) map[string]any { return map[string]any{"ref": "e1"} }
			tk := f.ticket(t, 7)
			err := f.guard.Check(t.Context(), tk, f.ready)
			if err == nil && tt.want != "" || err != nil && err.Code != tt.want || len(d.asked) != tt.asked {
				t.Fatalf("%v after %d questions, want %q after %d", err, len(d.asked), tt.want, tt.asked)
			}
			if tt.asked > 0 {
				c := d.asked[0]
				if c.Call != "c1" || c.Tool != tool || c.Principal != "agent-1" || c.Lane != "main" || string(c.Args) != string(tk.Args) || c.Shown["ref"] != "e1" || c.Why == "" || c.Wait <= 0 {
					t.Errorf("asked %+v", c)
				}
			}
		})
	}
}
