package satellite

import (
	"fmt"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// Refusals of a call are told with how often each was, and nothing beyond the bound is lost.
func TestRefusalsAreCounted(t *testing.T) {
	r := &refusals{}
	for range 3 {
		r.add("network.egress.https", "a.example:443")
	}
	if got := r.all(); len(got) != 1 || got[0].Key != "network.egress.https" || got[0].Detail != "a.example:443" || got[0].Count != 3 {
		t.Fatalf("%+v", got)
	}
	for i := range 100 {
		r.add("data.write.workspace", fmt.Sprint("/tmp/", i))
	}
	sum := uint32(0)
	for _, f := range r.all() {
		sum += f.Count
	}
	if got := r.all(); len(got) != remote.MaxRefused || got[remote.MaxRefused-1].Detail != others || sum != 103 {
		t.Errorf("%d in %+v", sum, got)
	}
}
