package intent_test

import (
	"testing"

	"github.com/handrail-dev/handrail/agent/worker/intent"
)

// Each intent has one of the seed's three old ones, which live nowhere else (S2-17); all nine of
// the seed are there (S2-04), and the risk and confidence of a route have their defaults (S2-03).
func TestOldIntents(t *testing.T) {
	const casual, lookup, tooling = "Casual", "WebLookup", "Tooling"
	old := map[intent.Name]string{
		intent.ChatOnly: casual, intent.LookupSearch: lookup, intent.OneShotDiscovery: lookup, intent.BrowseOnce: tooling,
		intent.ScreenObserve: tooling, intent.FileTask: tooling, intent.SystemTask: tooling, intent.MemoryRead: casual,
		intent.MemoryWrite: tooling, intent.BrowserTask: tooling, intent.DesktopTask: tooling,
	}
	for _, i := range intent.All() {
		if old[i.Name] == "" {
			t.Errorf("%s has no old intent", i.Name)
		}
		if i.Asks == "" || i.Means == "" || len(i.Prefixes) == 0 || i.Risk == "" {
			t.Errorf("%+v lacks something", i)
		}
	}
	if len(old) != len(intent.All()) {
		t.Errorf("%d intents, and %d have an old one", len(intent.All()), len(old))
	}
	if r := intent.To("none", 0.9); r.Intent != intent.ChatOnly || r.Confidence != intent.Default || r.Needs != (intent.Needs{}) {
		t.Errorf("an unknown intent is %+v", r)
	}
}
