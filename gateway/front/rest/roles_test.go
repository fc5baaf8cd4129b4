package rest_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/principal"
)

// Every route decides for every role as it did when the roles were a table in the program (S1-04).
func TestRoutesDecideAsBefore(t *testing.T) {
	a := start(t)
	text, err := os.ReadFile("../../principal/testdata/roles.txt")
	if err != nil {
		t.Fatal(err)
	}
	before := map[principal.Action][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		before[principal.Action(words[0])] = words[1:]
	}
	routes := a.rest.Actions()
	for route, action := range routes {
		for _, r := range []principal.Role{"", "root", principal.RoleAgent, principal.RoleViewer, principal.RoleOperator, principal.RoleAdmin} {
			want := action == "" || slices.Contains(before[action], string(r))
			if got := a.rest.Offers(principal.Identity{Principal: "ann", Role: r, Lane: "ann"}, route); got != want {
				t.Errorf("role %q, %s: %v, and before %v", r, route, got, want)
			}
		}
	}
	if len(routes) < 100 {
		t.Errorf("%d routes only", len(routes))
	}
}
