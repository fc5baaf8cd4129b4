package policy

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// Only values that rules look at are made for them: leaving the rest out changes no decision.
func TestOnlyWhatIsLookedAtIsMade(t *testing.T) {
	const click, permit = "tool.browser.click", `permit (principal, action == Action::"tool.browser.click", resource)`
	for _, c := range []struct {
		rules   string
		context bool // they look at it
		want    Effect
	}{
		{permit + ";", false, Allow},
		{permit + ` when { resource.trust == "trusted" };`, false, Allow},
		{permit + ` when { resource.labels.contains("home") };`, false, Deny},
		{permit + ` when { principal.role == "agent" && resource.label == "desk" };`, false, Allow},
		{`permit (principal in Role::"agent", action, resource);`, false, Allow},
		{`permit (principal in Lane::"other", action, resource);`, false, Deny},
		{`permit (principal, action, resource == Node::"n1");`, false, Allow},
		{`permit (principal == Agent::"bob", action, resource);`, false, Deny},
		{permit + ` when { context.lane == "lane" };`, true, Allow},
		{permit + ` unless { !context.consent };`, true, Ask},
		{permit + ` when { context.args has ref };`, true, Allow},
		{permit + ` when { context has args };`, true, Allow},
		{permit + ` when { ["t2", "t3"].contains(context.given) };`, true, Allow},
		{permit + ` when { if principal.role == "agent" then context.tool == "` + click + `" else false };`, true, Allow},
		{permit + ";\n" + `forbid (principal, action, resource) when { context.taint.contains("web") };`, true, Allow},
		{permit + ";\n" + `forbid (principal, action, resource) unless { context.consent };`, true, Ask},
	} {
		e, whole := mustLoad(t, c.rules), mustLoad(t, c.rules)
		for _, p := range whole.byAction {
			p.consults.context = true
		}
		if got := e.byAction[click].consults.context; got != c.context {
			t.Errorf("%s: looks at the context: %v", c.rules, got)
		}
		r := request(click, `{"ref":"e12"}`)
		if d := e.Decide(r); d.Effect != c.want || !reflect.DeepEqual(d, whole.Decide(r)) {
			t.Errorf("%s: %+v, with everything made %+v", c.rules, d, whole.Decide(r))
		}
		if d := e.Possible(r); !reflect.DeepEqual(d, whole.Possible(r)) {
			t.Errorf("%s: possible %+v, with everything made %+v", c.rules, d, whole.Possible(r))
		}
	}
}

func TestStamps(t *testing.T) {
	read := func(s string) bool {
		at, err := time.Parse(stampLayout, s)
		return err == nil && stamp(at) == s
	}
	good := stamp(testTime)
	all := []string{
		"", good, good[1:], good + "Z", "0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2024-02-29T00:00:00.000Z", "2023-02-29T00:00:00.000Z",
		"2024-00-10T00:00:00.000Z", "2024-13-10T00:00:00.000Z", "2024-04-31T00:00:00.000Z", "2024-04-00T00:00:00.000Z", "2024-04-30T24:00:00.000Z",
		"2024-04-30T23:60:00.000Z", "2024-12-31T23:59:60.000Z", "2024-04-30T23:00:00,000Z", "2024-04-30T23:00:00.000+00:00", "2024-04-30t23:00:00.000z",
	}
	for i := range good {
		for _, c := range "019:-.TZ ,/x" {
			all = append(all, good[:i]+string(c)+good[i+1:])
		}
	}
	for hour := range 3000 { // every length of month, by days and hours that do not fit as well
		all = append(all, fmt.Sprintf("2024-%02d-%02dT%02d:00:00.000Z", hour%14, hour%33, hour%26))
	}
	for _, s := range all {
		if isStamp(s) != read(s) {
			t.Errorf("%q: %v", s, isStamp(s))
		}
	}
	if !isStamp(good) {
		t.Error("what stamp gives is none")
	}
}
