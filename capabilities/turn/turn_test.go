package turn

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func whole() Claim {
	return Claim{Session: "s", Started: at, Ended: at.Add(time.Second), Stages: []Stage{
		{Stage: Router, At: at, Router: &Routed{Intent: "file_task", Confidence: 0.7, By: "signals"}},
		{Stage: Policy, At: at, Policy: &Decided{Allowed: []capabilities.ToolID{"tool.fs.read"}, Required: []string{"FileAccess"}}},
		{Stage: Permission, At: at, Permission: &Checked{Tool: "tool.fs.read", Capability: "FileAccess", By: "workspace-read"}},
		{Stage: ToolCall, At: at, Call: &Called{Tool: "tool.fs.read", CallID: "c-1", Status: "ok", DurationMS: 3.5}},
		{Stage: Response, At: at, Response: &Responded{RoundTrips: 2}},
		{Stage: Memory, At: at, Memory: []Noted{{Status: "kept", Fact: "fact_1"}}},
		{Stage: Cleanup, At: at, Cleanup: &Cleaned{}},
		{Stage: Pipeline, At: at, Pipeline: &Summarised{Intent: "file_task", Confidence: 0.7, Calls: []capabilities.CallID{"c-1"}, RoundTrips: 2, MemoryWrites: 1}},
	}}
}

// TestClaimsAreBounded: every stage of S2-43 has its part and its bounds. A claim that is out of
// them is refused.
func TestClaimsAreBounded(t *testing.T) {
	if c := whole(); c.Validate() != nil {
		t.Fatal(c.Validate())
	}
	for name, spoil := range map[string]func(c *Claim){
		"no session":      func(c *Claim) { c.Session = "" },
		"a lane's name":   func(c *Claim) { c.Lane = "a\nb" },
		"no stage":        func(c *Claim) { c.Stages = nil },
		"no pipeline":     func(c *Claim) { c.Stages = c.Stages[:3] },
		"pipeline twice":  func(c *Claim) { c.Stages = append(c.Stages, c.Stages[7]) },
		"ends before":     func(c *Claim) { c.Ended = at.Add(-1) },
		"an unknown one":  func(c *Claim) { c.Stages[0].Stage = "ROUTER" },
		"two parts":       func(c *Claim) { c.Stages[0].Cleanup = &Cleaned{} },
		"another's part":  func(c *Claim) { c.Stages[0].Stage = Policy },
		"no time":         func(c *Claim) { c.Stages[0].At = time.Time{} },
		"no number":       func(c *Claim) { c.Stages[0].Router.Confidence = math.NaN() },
		"too sure":        func(c *Claim) { c.Stages[7].Pipeline.Confidence = 1.1 },
		"less than none":  func(c *Claim) { c.Stages[4].Response.Tokens = -1 },
		"words":           func(c *Claim) { c.Stages[3].Call.Status = strings.Repeat("a", maxName+1) },
		"hidden words":    func(c *Claim) { c.Stages[2].Permission.By = "a\u202eb" },
		"many tools":      func(c *Claim) { c.Stages[1].Policy.Allowed = make([]capabilities.ToolID, MaxTools+1) },
		"many wishes":     func(c *Claim) { c.Stages[5].Memory = make([]Noted, MaxTools+1) },
		"a state":         func(c *Claim) { c.State = "asleep" },
		"lost":            func(c *Claim) { c.State = Lost }, // that is the gateway's word
		"running":         func(c *Claim) { c.State, c.Turn = Running, "turn_0123456789abcdef" },
		"many calls":      func(c *Claim) { c.Stages[7].Pipeline.Calls = make([]capabilities.CallID, MaxTools+1) },
		"too many stages": func(c *Claim) { c.Stages = append(make([]Stage, MaxStages), c.Stages...) },
	} {
		c := whole()
		spoil(&c)
		if err := c.Validate(); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestATurnThatRuns: a claim of it has an ID, no end and no stage for the whole, and says what came
// of it so far.
func TestATurnThatRuns(t *testing.T) {
	running := func() Claim {
		c := whole()
		c.State, c.Turn, c.Ended, c.Stages = Running, "turn_0123456789abcdef", time.Time{}, c.Stages[:4]
		return c
	}
	c := running()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if s := c.SoFar(); s.Intent != "file_task" || len(s.Calls) != 1 || len(s.Allowed) != 1 {
		t.Errorf("%+v", s)
	}
	if data, _ := json.Marshal(c); strings.Contains(string(data), "ended_at") {
		t.Errorf("%s", data)
	}
	c.Stages[3].At = at.Add(2 * time.Second)
	lost, ended := c, whole()
	lost.State = Lost
	for _, one := range []struct {
		c    Claim
		took time.Duration
	}{{c, time.Minute}, {lost, 2 * time.Second}, {ended, time.Second}} {
		if got := one.c.Took(at.Add(time.Minute)); got != one.took {
			t.Errorf("%s took %s", one.c.State, got)
		}
	}
	if got := c.Took(at.Add(-time.Minute)); got != 0 {
		t.Errorf("with another clock it took %s", got)
	}
	for name, spoil := range map[string]func(c *Claim){
		"no ID":       func(c *Claim) { c.Turn = "" },
		"an end":      func(c *Claim) { c.Ended = at },
		"no stage":    func(c *Claim) { c.Stages = nil },
		"no start":    func(c *Claim) { c.Started = time.Time{} },
		"a pipeline":  func(c *Claim) { c.Stages = whole().Stages },
		"one between": func(c *Claim) { c.Stages = append([]Stage{whole().Stages[7]}, c.Stages...) },
	} {
		c := running()
		spoil(&c)
		if err := c.Validate(); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzClaim: no bytes make a claim that passes and cannot be written down again.
func FuzzClaim(f *testing.F) {
	data, _ := json.Marshal(whole())
	f.Add(data)
	f.Add([]byte(`{"stages":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Claim
		if json.Unmarshal(data, &c) != nil || c.Validate() != nil {
			return
		}
		if _, err := json.Marshal(c); err != nil || (c.Summary() == nil) != (c.State == Running) {
			t.Errorf("%+v: %v", c, err)
		}
	})
}
