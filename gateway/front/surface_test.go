package front_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// A page's controls follow from declared and granted keys by one table, and from nothing else
// (S1-25).
func TestSurface(t *testing.T) {
	for name, c := range map[string]struct {
		declared, granted []string
		mode              api.Mode
		holds             func(api.Surface) bool
	}{
		"nothing": {nil, nil, api.ModeSafe, func(s api.Surface) bool { return !s.Outbound && !s.Secret && !s.Picker }},
		"reads":   {[]string{"data.read.screen"}, []string{"data.read.screen"}, api.ModeSafe, nil},
		"reaches": {[]string{"network.egress.http"}, []string{"network.egress.http", "network.egress.domain_allowlist:example.com"}, api.ModeConnected, func(s api.Surface) bool { return s.Outbound && slices.Equal(s.Destinations, []string{"example.com"}) }},
		"types":   {[]string{"privileged.input.inject"}, []string{"privileged.input.inject"}, api.ModeElevated, func(s api.Surface) bool { return !s.Secret }},
		"secret":  {[]string{"privileged.secret.read"}, []string{"privileged.secret.read"}, api.ModeElevated, func(s api.Surface) bool { return s.Secret }},
		"withheld": {[]string{"network.egress.http", "data.read.screen"}, []string{"data.read.screen"}, api.ModeRestricted, func(s api.Surface) bool {
			return !s.Outbound && slices.Equal(s.Withheld, []string{"network.egress.http"})
		}},
		"destroys": {[]string{"ui.action.confirm_destructive"}, []string{"ui.action.confirm_destructive"}, api.ModeSafe, func(s api.Surface) bool { return s.Confirm }},
		"long":     {[]string{"execution.timeout.extended"}, []string{"execution.timeout.extended"}, api.ModeSafe, func(s api.Surface) bool { return s.LongRun }},
		"files":    {[]string{"ui.input.file_upload", "data.write.workspace"}, []string{"ui.input.file_upload", "data.write.workspace"}, api.ModeSafe, func(s api.Surface) bool { return s.Picker }},
		"no files": {[]string{"ui.input.file_upload", "data.write.workspace"}, []string{"ui.input.file_upload"}, api.ModeRestricted, func(s api.Surface) bool { return !s.Picker }},
	} {
		s := front.Surface(c.declared, c.granted)
		if s.Mode != c.mode || c.holds != nil && !c.holds(s) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A grant that is taken away never shows more, and an action is visible only if all three terms
// hold (S1-15, S1-33).
func TestLessGrantedShowsLess(t *testing.T) {
	keys := []string{"network.egress.http", "privileged.secret.read", "privileged.input.inject", "ui.action.confirm_destructive", "execution.timeout.extended", "ui.input.file_upload", "data.write.workspace"}
	rapid.Check(t, func(rt *rapid.T) {
		declared := rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID).Draw(rt, "declared")
		if len(declared) == 0 {
			return
		}
		gone := rapid.IntRange(0, len(declared)-1).Draw(rt, "gone")
		more := front.Surface(declared, declared)
		less := front.Surface(declared, slices.Delete(slices.Clone(declared), gone, gone+1))
		if less.Outbound && !more.Outbound || less.Secret && !more.Secret || less.Picker && !more.Picker || less.Confirm && !more.Confirm || less.LongRun && !more.LongRun || less.Mode != api.ModeRestricted {
			rt.Fatalf("%+v is more than %+v", less, more)
		}
	})
	for i := range 8 {
		a, b, c := i&1 > 0, i&2 > 0, i&4 > 0
		if policy.Visible(a, b, c) != (i == 7) {
			t.Errorf("declared %v, allowed %v, mapped %v", a, b, c)
		}
	}
}
