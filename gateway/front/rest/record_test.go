package rest_test

import (
	"strings"
	"testing"
)

// A recording that names no node is of the one that the lane is attached to, else of the
// only one there is; of several none is chosen, and they are named.
func TestARecordingFindsItsScreen(t *testing.T) {
	a := start(t)
	who, err := a.Tokens.Authenticate(a.agent)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Lanes.Enter(t.Context(), who, "work"); err != nil {
		t.Fatal(err)
	}
	answers := func(want ...string) {
		t.Helper()
		_, body := a.do(a.operator, "POST", "/v1/recordings", `{"lane":"work"}`)
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("the answer has no %q: %s", w, body)
			}
		}
	}
	const begun = "not_supported" // here nothing records: the screen was found
	answers(begun)
	a.ok(a.operator, "POST", "/v1/nodes/n2/approve", "{}", nil)
	answers("node_id is needed", "any of 2 nodes", "n1 (desk n1)", "n2 (desk n2)")
	a.ok(a.operator, "PUT", "/v1/lanes/work/nodes/n2", "", nil)
	answers(begun)
}
