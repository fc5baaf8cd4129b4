package policy

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

// The keys that the seed names are keys, each of its category; others of a category are, too, and
// there is no sixth one (S1-11, S1-12, S1-14, S1-16, S1-18, S1-21).
func TestKeysOfTheSeed(t *testing.T) {
	for category, names := range map[string]string{
		"execution":  "language.node language.python proc.spawn timeout.extended cpu.burst memory.high",
		"ui":         "input.file_upload input.large_payload output.rich_html output.download session.persist_state action.confirm_destructive",
		"data":       "read.workspace write.workspace read.tool_cache write.temp access.pii_masked retention.extended",
		"network":    "egress.http egress.https egress.domain_allowlist ingress.webhook ai.provider_api dns.lookup",
		"privileged": "secret.read admin.mutate_policy system.command cross_tenant_access audit.override",
	} {
		keys := []string{category + ".new_thing"}
		for name := range strings.FieldsSeq(names) {
			keys = append(keys, category+"."+name)
		}
		for _, key := range keys {
			if !validKey(key) {
				t.Errorf("%s is no key", key)
			}
		}
		grouped := groupKeys(keys)
		for _, group := range grouped.all() {
			if (group.name == category) != (len(group.keys) == len(keys)) {
				t.Errorf("%s of %q: %q", group.name, keys, group.keys)
			}
		}
	}
	for _, key := range []string{"storage.read", "data", "data.", ".read", "Data.read"} {
		if validKey(key) {
			t.Errorf("%q is a key", key)
		}
	}
}

// Class and risk follow from the keys alone (S1-03).
func TestDerive(t *testing.T) {
	for _, c := range []struct {
		keys  []string
		class capabilities.IsolationClass
		risk  Risk
	}{
		// The rows of S1-35.
		{nil, "t0", RiskLow},
		{[]string{"execution.language.node"}, "t0", RiskLow},
		{[]string{"execution.timeout.extended", "ui.output.rich_html"}, "t0", RiskLow},
		{[]string{"data.write.workspace"}, "t1", RiskMedium},
		{[]string{"network.egress.https"}, "t2", RiskMedium},
		{[]string{"network.egress.https", "data.write.workspace"}, "t2", RiskMedium},
		{[]string{"privileged.secret.read"}, "t3", RiskCritical},
		// S1-36: the highest sets the class.
		{[]string{"data.write.workspace", "network.dns.lookup", "privileged.system.command"}, "t3", RiskCritical},
		{[]string{"execution.proc.spawn"}, "t1", RiskHigh},
		{[]string{"data.write.temp"}, "t1", RiskLow},
		{[]string{"ui.action.confirm_destructive"}, "t0", RiskMedium},
		// Device keys.
		{[]string{"network.browser.session"}, "t2", RiskMedium},
		{[]string{"execution.browser.script", "network.browser.session"}, "t2", RiskMedium},
		{[]string{"data.read.screen"}, "t1", RiskHigh},
		{[]string{"data.capture.camera"}, "t1", RiskHigh},
		{[]string{"data.read.location"}, "t1", RiskHigh},
		{[]string{"data.write.clipboard"}, "t1", RiskMedium},
		{[]string{"privileged.input.inject"}, "t3", RiskHigh},
		{[]string{"data.write.clipboard", "privileged.secret.read"}, "t3", RiskCritical},
		// An unknown key is not harmless.
		{[]string{"nonsense"}, "t3", RiskCritical},
		{[]string{"quantum.leap"}, "t3", RiskCritical},
		{[]string{"privileged.new_thing"}, "t3", RiskCritical},
	} {
		if got := DeriveIsolation(c.keys); got != c.class {
			t.Errorf("%q: class %s, want %s", c.keys, got, c.class)
		}
		if got := DeriveRisk(c.keys); got != c.risk {
			t.Errorf("%q: risk %s, want %s", c.keys, got, c.risk)
		}
	}
}

var someKeys = []string{
	"execution.language.node", "execution.proc.spawn", "execution.browser.script", "ui.output.download", "ui.input.file_upload",
	"data.read.workspace", "data.write.workspace", "data.read.screen", "network.egress.https", "network.browser.session",
	"privileged.secret.read", "privileged.input.inject",
}

// More keys never mean less isolation or less risk; order and repetition mean
// nothing.
func TestDeriveIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.SampledFrom(someKeys)).Draw(t, "keys")
		more := append(slices.Clone(keys), rapid.SliceOf(rapid.SampledFrom(someKeys)).Draw(t, "more")...)
		if DeriveIsolation(more).Rank() < DeriveIsolation(keys).Rank() || DeriveRisk(more).rank() < DeriveRisk(keys).rank() {
			t.Fatal("adding keys lowered something")
		}
		again := append(slices.Clone(keys), keys...)
		again = rapid.Permutation(again).Draw(t, "order")
		if ProfileID(again) != ProfileID(keys) {
			t.Fatal("order or repetition changed the profile")
		}
		extra := rapid.SampledFrom(someKeys).Draw(t, "extra")
		if (ProfileID(append(slices.Clone(keys), extra)) == ProfileID(keys)) != slices.Contains(keys, extra) {
			t.Fatal("the profile does not tell the keys apart")
		}
	})
}

// Every descriptor fits: its keys are keys, its declared class is not below the
// derived one.
func TestCatalogProfiles(t *testing.T) {
	for _, d := range testCatalog(t).All() {
		p := NewProfile(d)
		for _, k := range p.Keys {
			if !validKey(k) {
				t.Errorf("%s: %q is no key", d.Tool, k)
			}
		}
		if p.Isolation.Rank() < DeriveIsolation(p.Keys).Rank() || p.Isolation == capabilities.ClassSession {
			t.Errorf("%s: class %s", d.Tool, p.Isolation)
		}
		if d.Defaults.Isolation.Rank() < DeriveIsolation(p.Keys).Rank() {
			t.Errorf("%s declares %s below the derived %s", d.Tool, d.Defaults.Isolation, DeriveIsolation(p.Keys))
		}
		if p.Privileged != (DeriveIsolation(p.Keys) == capabilities.ClassT3) {
			t.Errorf("%s: privileged %v with class %s", d.Tool, p.Privileged, p.Isolation)
		}
	}
}
