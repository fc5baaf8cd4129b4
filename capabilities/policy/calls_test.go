package policy

import "testing"

// Rules bound how often a tool is called, and an engine says of which tools any looks at it.
func TestCalls(t *testing.T) {
	e := mustLoad(t, permitAll, `@id("few") forbid (principal, action == Action::"tool.browser.snapshot", resource)
		when { context.calls_last_minute >= 2 || context.calls_last_hour >= 10 || context.calls_last_day >= 20 };
@id("then-ask") forbid (principal, action == Action::"tool.browser.click", resource) when { context.calls_last_hour >= 5 } unless { context.consent };`)
	for _, c := range []struct {
		calls Calls
		want  Effect
	}{{Calls{}, Allow}, {Calls{1, 9, 19}, Allow}, {Calls{2, 2, 2}, Deny}, {Calls{0, 10, 10}, Deny}, {Calls{0, 0, 20}, Deny}} {
		q := request("tool.browser.snapshot", `{}`)
		q.Calls = c.calls
		if got := e.Decide(q); got.Effect != c.want {
			t.Errorf("%+v: %+v", c.calls, got)
		}
		if got := e.Possible(request("tool.browser.snapshot", `{}`)); got.Effect != Allow {
			t.Errorf("a list: %+v", got)
		}
	}
	q := request("tool.browser.click", `{"ref":"e1"}`)
	q.Calls.Hour = 5
	if got := e.Decide(q); got.Effect != Ask {
		t.Errorf("%+v", got)
	}
	if !e.Counts("tool.browser.snapshot") || !e.Counts("tool.browser.click") || e.Counts("tool.browser.navigate") || e.Counts("tool.none") || !e.CountsAny() {
		t.Error("which tools are counted is wrong")
	}
	if e := mustLoad(t, permitAll); e.Counts("tool.browser.snapshot") || e.CountsAny() {
		t.Error("no rule counts")
	}
	byKey := mustLoad(t, permitAll, `@id("k") forbid (principal, action in Action::"keys:network", resource) when { context.calls_last_day > 3 };`)
	if !byKey.Counts("tool.browser.snapshot") {
		t.Error("a rule of keys is about any tool")
	}
}
