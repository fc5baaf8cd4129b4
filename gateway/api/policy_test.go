package api

import "testing"

// A replay is told in one sentence, and a call that it cannot be sure of is told as such.
func TestReplayInWords(t *testing.T) {
	for want, r := range map[string]*PolicyReplay{
		"5 recorded calls judged again: 4 as they were, 0 stricter, 1 looser, 0 unsure; 2 not decided by policy.":                                                   {Calls: 5, Same: 4, Looser: 1, Skipped: 2},
		"1 recorded call judged again: 1 as they were, 0 stricter, 0 looser, 0 unsure; 0 not decided by policy.":                                                    {Calls: 1, Same: 1},
		"3 recorded calls judged again: 0 as they were, 1 stricter, 2 looser, 0 unsure; 0 not decided by policy. The policy in force decides 1 of them so already.": {Calls: 3, Looser: 2, Stricter: 1, Already: 1},
	} {
		if got := r.Summary(); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
	for want, c := range map[string]*PolicyChange{"deny": {Would: "deny"}, "ask (unsure)": {Would: "ask", Unsure: true}, "deny, as now": {Would: "deny", Already: true}} {
		if got := c.Instead(); got != want {
			t.Errorf("%q instead of %q", got, want)
		}
	}
}
