package policy

import (
	"testing"

	cedar "github.com/cedar-policy/cedar-go"

	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// The descriptor says which arguments are addresses, files and applications; their names say
// nothing.
func TestTheDescriptorSaysWhatAnArgumentReaches(t *testing.T) {
	input := `{"type":"object","properties":{"page":{"type":"string"},"url":{"type":"string"},"app":{"type":"string"},
		"inputs":{"type":"array","items":{"type":"string"}},"paths":{"type":"array","items":{"type":"string"}}}}`
	recorded := catalog.Evidence{Args: []string{"/url", "/page", "/paths", "/inputs", "/app"}}
	args := []byte(`{"app":"b","inputs":["/in/a"],"page":"https://page.example/","paths":["/paths/a"],"url":"https://url.example/"}`)
	of := func(reach ...catalog.Reach) func(name string) (string, bool) {
		spec := newArgSpec(&catalog.Descriptor{Input: []byte(input), Evidence: recorded, Reach: reach})
		record, ok := spec.record(args)
		if !ok {
			t.Fatal("the arguments cannot be judged")
		}
		return func(name string) (string, bool) {
			v, ok := record.Get(cedar.String(name))
			text, _ := v.(cedar.String)
			return string(text), ok
		}
	}
	said := of(catalog.Reach{Arg: "/page", Kind: catalog.ReachAddress}, catalog.Reach{Arg: "/inputs", Kind: catalog.ReachPath}, catalog.Reach{Arg: "/app", Kind: catalog.ReachApp})
	for name, want := range map[string]string{"host": "page.example", "url": "https://url.example/", "root": "/in/"} {
		if got, ok := said(name); !ok || got != want {
			t.Errorf("%s is %q, %t", name, got, ok)
		}
	}
	if _, ok := said("application"); !ok {
		t.Error("no application")
	}
	said = of()
	for _, name := range []string{"host", "address", "root", "application"} {
		if got, ok := said(name); ok {
			t.Errorf("%s is %q although the descriptor names nothing that is reached", name, got)
		}
	}
}
