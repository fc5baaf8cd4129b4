package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestGrantedKeysAreNoDrift(t *testing.T) {
	r := NewRecorder([]string{"network.browser.session"}, func(string) { t.Error("critical for a granted key") })
	r.Observe("network.browser.session", "example.org")
	r.Observe("network.browser.session", "example.org")
	got, dropped := r.Observations()
	if len(got) != 1 || got[0].Count != 2 || got[0].Severity != SeverityNone || dropped != 0 {
		t.Fatalf("got %+v, %d dropped", got, dropped)
	}
}

// S1-44, S1-46, S1-51: outside the grants is a violation; privileged is critical.
func TestOutsideTheGrants(t *testing.T) {
	var critical []string
	r := NewRecorder([]string{"data.read.screen"}, func(k string) { critical = append(critical, k) })
	r.Observe("network.egress.https", "example.org")
	if len(critical) != 0 {
		t.Fatalf("a violation was treated as critical: %v", critical)
	}
	r.Observe("privileged.secret.read", "")
	if len(critical) != 1 || critical[0] != "privileged.secret.read" {
		t.Fatalf("critical = %v", critical)
	}
	got, _ := r.Observations()
	if got[0].Severity != SeverityCritical || got[1].Severity != SeverityViolation {
		t.Fatalf("worst must come first: %+v", got)
	}
}

// An attempt that was refused is a violation, also under a key that is granted, and is told apart
// from what happened; a privileged one is critical (S1-50).
func TestRefusedAttempts(t *testing.T) {
	var critical []string
	r := NewRecorder([]string{"network.egress.https"}, func(k string) { critical = append(critical, k) })
	r.Observe("network.egress.https", "example.org:443")
	r.Refused("network.egress.https", "example.org:443")
	r.Refused("network.egress.https", strings.Repeat("x", 10_000))
	got, _ := r.Observations()
	if len(critical) != 0 || len(got) != 3 || !got[0].Refused || got[0].Severity != SeverityViolation || !got[1].Refused || len(got[1].Detail) != maxDetail || got[2].Refused {
		t.Fatalf("%+v, critical %v", got, critical)
	}
	r.Refused("privileged.secret.read", "")
	if len(critical) != 1 {
		t.Fatalf("critical = %v", critical)
	}
}

// An attempt of one of several calls is kept apart from those of this one, with their names
// (S1-49).
func TestAmongSeveral(t *testing.T) {
	r := NewRecorder(nil, func(string) {})
	both := []capabilities.CallID{"call_a", "call_b"}
	r.Refused("network.egress.https", "example.org:443")
	r.Refused("network.egress.https", "example.org:443", both...)
	r.Refused("network.egress.https", "example.org:443", both...)
	got, _ := r.Observations()
	if len(got) != 2 || got[0].Count+got[1].Count != 3 || len(got[0].Among)+len(got[1].Among) != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestBoundKeepsDifferences(t *testing.T) {
	r := NewRecorder([]string{"network.browser.session"}, func(string) {})
	for i := range 10_000 {
		r.Observe("network.browser.session", fmt.Sprint("host", i))
	}
	r.Observe("data.write.workspace", strings.Repeat("x", 10_000))
	got, dropped := r.Observations()
	if len(got) > maxKeys {
		t.Fatalf("kept %d observations", len(got))
	}
	if got[0].Key != "data.write.workspace" || len(got[0].Detail) != maxDetail {
		t.Fatalf("the difference was dropped or not cut: %+v", got[0])
	}
	if dropped == 0 {
		t.Fatal("what was left out is not counted")
	}
	if r.Lost() != 0 {
		t.Fatalf("%d differences are said to be lost", r.Lost())
	}
	for i := range 100 {
		r.Observe("data.write.workspace", fmt.Sprint("file", i))
	}
	if got, _ := r.Observations(); len(got) != maxKeys || int(r.Lost()) != 101-maxKeys {
		t.Fatalf("%d kept, %d lost", len(got), r.Lost())
	}
}
