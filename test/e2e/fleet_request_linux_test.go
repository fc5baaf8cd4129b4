package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// TestOneRequestAtOnce: the same request comes to three gateways at the same time. One carries it
// out, and all three answer with what became of that.
func TestOneRequestAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	token, err := os.ReadFile(filepath.Join(f.home, "one/gateway/agent.token"))
	must(t, err)
	var at []*caller
	for _, name := range f.names {
		var place struct {
			HTTP string `json:"http"`
		}
		text, err := os.ReadFile(filepath.Join(f.home, name, "gateway/gateway.json"))
		must(t, err)
		must(t, json.Unmarshal(text, &place))
		at = append(at, newCaller(t, place.HTTP, strings.TrimSpace(string(token))))
	}
	call := func(c *caller, request string) (r capabilities.Result) {
		code, answer, err := c.try(t.Context(), http.MethodPost, "/v1/calls", `{"tool":"tool.fs.read","args":{"path":"a.txt"},"request_id":"`+request+`"}`)
		if err != nil || code != http.StatusOK || json.Unmarshal(answer, &r) != nil {
			t.Errorf("%d %s %v", code, answer, err)
		}
		return r
	}
	for i := range at {
		for n := 0; call(at[i], fmt.Sprintf("first-%d-%d", i, n)).Status != capabilities.StatusOK; n++ {
			if t.Failed() {
				return
			}
		}
	}
	ran := map[capabilities.CallID]bool{}
	const rounds = 40
	for round := range rounds {
		var all sync.WaitGroup
		got := make([]capabilities.Result, len(at))
		for i, c := range at {
			all.Go(func() { got[i] = call(c, fmt.Sprint("round-", round)) })
		}
		all.Wait()
		for i, r := range got {
			if r.Status != capabilities.StatusOK || r.Call != got[0].Call {
				t.Errorf("round %d: the %s gateway says %s %s of %s, the first %s of %s", round, f.names[i], r.Status, r.Code, r.Call, got[0].Status, got[0].Call)
			}
		}
		ran[got[0].Call] = true
	}
	dispatched := 0
	for _, p := range items[api.Packet](f.all[0], "ledger", "show", "--kind", "tool.call.dispatch", "--limit", "1000") {
		if ran[p.Call] {
			dispatched++
		}
	}
	if dispatched != rounds || len(ran) != rounds {
		t.Errorf("%d requests were carried out %d times, as %d calls", rounds, dispatched, len(ran))
	}
}
