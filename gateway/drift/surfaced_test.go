package drift_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/drift"
)

// effective is what holds in a test: controls with whether one may, and grants.
type effective struct {
	controls map[string]bool
	grants   map[capabilities.CallID][]string
}

func (e effective) Control(name string) (known, may bool) { may, known = e.controls[name]; return }

func (e effective) Granted(c capabilities.CallID) ([]string, bool) {
	g, ok := e.grants[c]
	return g, ok
}

var now = effective{
	controls: map[string]bool{"POST /v1/stop": true, "POST /v1/tokens": false},
	grants:   map[capabilities.CallID][]string{"c1": {"network.egress.domain_allowlist:example.com", "data.read.screen"}},
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		in   drift.Surfaced
		want []drift.Severity
	}{
		"what holds":          {drift.Surfaced{Controls: []string{"POST /v1/stop"}, Keys: []drift.Key{{"c1", "data.read.screen"}, {"c1", "network.egress.domain_allowlist"}}}, nil},
		"nothing":             {drift.Surfaced{}, nil},
		"an action of others": {drift.Surfaced{Controls: []string{"POST /v1/tokens"}}, []drift.Severity{drift.Violation}},
		"an action of none":   {drift.Surfaced{Controls: []string{"POST /v1/gone", strings.Repeat("x", 500)}}, []drift.Severity{drift.Warning, drift.Warning}},
		"a key":               {drift.Surfaced{Keys: []drift.Key{{"c1", "network.egress.http"}}}, []drift.Severity{drift.Violation}},
		"a privileged key":    {drift.Surfaced{Keys: []drift.Key{{"c1", "privileged.secret.read"}}}, []drift.Severity{drift.Critical}},
		"a call of nobody's":  {drift.Surfaced{Keys: []drift.Key{{"c2", "data.read.screen"}}}, []drift.Severity{drift.Violation}},
	} {
		got, err := drift.Compare(c.in, now)
		var have []drift.Severity
		for _, s := range got {
			have = append(have, s.Severity)
			if s.Text == "" || len(s.Control) > 200 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if err != nil || !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v (%v)", name, have, c.want, err)
		}
	}
	for name, in := range map[string]drift.Surfaced{
		"controls": {Controls: make([]string, drift.MaxControls+1)}, "keys": {Keys: make([]drift.Key, drift.MaxKeys+1)},
		"page": {Page: strings.Repeat("x", 201)}, "key": {Keys: []drift.Key{{"c1", strings.Repeat("x", 201)}}},
	} {
		if _, err := drift.Compare(in, now); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("too many %s: %v", name, err)
		}
	}
}

// A granted key is never a signal, and one that is not always is.
func TestCompareIsExact(t *testing.T) {
	keys := []string{"data.read.screen", "network.egress.http", "privileged.secret.read", "privileged.input.inject"}
	rapid.Check(t, func(rt *rapid.T) {
		granted := rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID).Draw(rt, "granted")
		shown := rapid.SliceOfDistinct(rapid.SampledFrom(keys), rapid.ID).Draw(rt, "shown")
		in, without := drift.Surfaced{}, 0
		for _, k := range shown {
			in.Keys = append(in.Keys, drift.Key{Call: "c", Key: k})
			if !slices.Contains(granted, k) {
				without++
			}
		}
		got, err := drift.Compare(in, effective{grants: map[capabilities.CallID][]string{"c": granted}})
		if err != nil || len(got) != without {
			rt.Fatalf("%d signals, want %d (%v)", len(got), without, err)
		}
	})
}
