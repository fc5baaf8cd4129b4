package dispatch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

// The effective grants of a child are among its parent's, at any depth, whatever it declares, lacks
// or is narrowed to; or there is no envelope (S3-16, S3-18). Where the parent is narrowed to hosts,
// the child reaches no others.
func TestAChildHasAtMostItsParentsGrants(t *testing.T) {
	pool := []string{
		"data.read.path", "data.read.screen", "data.write.path", "execution.proc.spawn", capabilities.KeyPages, capabilities.KeyEgress,
		"network.http.fetch", "privileged.input.inject", "ui.input.file_upload",
	}
	some := func(t *rapid.T, label string, of []string) []string {
		return slices.DeleteFunc(slices.Sorted(slices.Values(of)), func(string) bool { return rapid.Bool().Draw(t, label) })
	}
	hosts := []string{capabilities.NarrowDomains + "a.example", capabilities.NarrowDomains + "b.example"}
	built := 0
	rapid.Check(t, func(t *rapid.T) {
		input := func(depth string) policy.EnvelopeInput {
			keys := some(t, depth+" lacks", pool)
			return policy.EnvelopeInput{
				Profile: &policy.Profile{
					Tool: "tool.fixture.x", Version: "1.0.0", ManifestHash: "sha256:00", Keys: keys, Optional: some(t, depth+" needs", keys), ID: "p",
					Risk: policy.DeriveRisk(keys), Isolation: policy.DeriveIsolation(keys), Consent: catalog.ConsentCall,
				},
				Principal: "agent", Lane: capabilities.LaneID("lane-" + depth), ArgsDigest: []byte{1}, Policy: "s",
				Withheld: some(t, depth+" has", keys), Narrowed: some(t, depth+" reaches", hosts),
				Created: time.Unix(1, 0), Expires: time.Unix(2, 0),
			}
		}
		in := input("0")
		parent, err := policy.BuildEnvelope(in)
		if err != nil {
			return
		}
		for _, depth := range []string{"1", "2", "3"} {
			in := input(depth)
			n := &nest{parent: parent}
			if n.attenuate(&in, capabilities.NarrowDomains) != nil {
				return // refused: nothing runs
			}
			child, err := policy.BuildEnvelope(in)
			if err != nil {
				return
			}
			built++
			bounded := slices.ContainsFunc(parent.Grants, func(k string) bool { return strings.HasPrefix(k, capabilities.NarrowDomains) })
			for _, key := range child.Grants {
				narrows := strings.HasPrefix(key, capabilities.NarrowDomains)
				if !slices.Contains(parent.Grants, key) && !(narrows && !bounded) {
					t.Fatalf("the child has %s; its parent %q", key, parent.Grants)
				}
			}
			if bounded && !slices.ContainsFunc(child.Grants, func(k string) bool { return strings.HasPrefix(k, capabilities.NarrowDomains) }) {
				t.Fatalf("the child is narrowed to no host: %q; its parent %q", child.Grants, parent.Grants)
			}
			parent = child
		}
	})
	if built == 0 {
		t.Error("no child had an envelope")
	}
}
