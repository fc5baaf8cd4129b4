package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestQuotaOfAFleet: a rule lets an agent read seven files an hour. Of many calls that come to two
// gateways at once seven go on, and the others are told when the next may. A gateway that starts
// later counts them, too.
func TestQuotaOfAFleet(t *testing.T) {
	f := startsAtOnce(t, "one", "two")
	token, err := os.ReadFile(filepath.Join(f.home, "one/gateway/agent.token"))
	must(t, err)
	at := func(name string) *caller {
		var place struct {
			HTTP string `json:"http"`
		}
		text, err := os.ReadFile(filepath.Join(f.home, name, "gateway/gateway.json"))
		must(t, err)
		must(t, json.Unmarshal(text, &place))
		return newCaller(t, place.HTTP, strings.TrimSpace(string(token)))
	}
	call := func(c *caller, body string) (r capabilities.Result, retryMS int64) {
		_, answer, err := c.try(t.Context(), http.MethodPost, "/v1/calls", body)
		var told struct {
			Details struct {
				RetryMS int64 `json:"retry_after_ms"`
			} `json:"details"`
		}
		if err != nil || json.Unmarshal(answer, &r) != nil || json.Unmarshal(answer, &told) != nil {
			t.Errorf("%s %v", answer, err)
		}
		return r, told.Details.RetryMS
	}
	const read, list = `{"tool":"tool.fs.read","args":{"path":"a.txt"}}`, `{"tool":"tool.fs.list","args":{"path":"."}}`
	both := []*caller{at("one"), at("two")}
	for i, c := range both {
		desk.Await(t, "a call through the "+f.names[i]+" gateway", func() bool {
			r, _ := call(c, list)
			return r.Status == capabilities.StatusOK
		})
	}
	must(t, os.WriteFile(filepath.Join(f.home, "one/gateway/policy/few.cedar"), []byte(
		`@id("few") forbid (principal, action == Action::"tool.fs.read", resource) when { context.calls_last_hour >= 7 };
@id("none") forbid (principal, action == Action::"tool.fs.list", resource);`), 0o600))
	f.all[0].does("policy", "activate", "--yes")
	for i, c := range both {
		desk.Await(t, "the rules at the "+f.names[i]+" gateway", func() bool {
			r, _ := call(c, list)
			return r.Status == capabilities.StatusDenied
		})
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	ends := map[capabilities.Code]int{}
	for i := range 60 {
		all.Go(func() {
			r, retryMS := call(both[i%2], read)
			if r.Code == capabilities.CodeOverloaded && (retryMS < 1 || retryMS > 3_600_001 || !r.Retryable) {
				t.Errorf("refused without a time, or not for a while: %d ms, %+v", retryMS, r)
			}
			mu.Lock()
			defer mu.Unlock()
			ends[r.Code]++
		})
	}
	all.Wait()
	if ends[""] != 7 || ends[capabilities.CodeOverloaded] != 53 {
		t.Errorf("the calls ended as %v, want 7 that went on and 53 that were refused", ends)
	}
	f.run[1].signal(syscall.SIGTERM)
	<-f.run[1].over
	f.start(1)
	second := at("two")
	desk.Await(t, "the second gateway to refuse once more", func() bool {
		r, _ := call(second, read)
		if r.Status == capabilities.StatusOK {
			t.Fatal("one more went on after a start")
		}
		return r.Code == capabilities.CodeOverloaded
	})
	ordered := 0
	for _, p := range items[api.Packet](f.all[0], "ledger", "show", "--kind", "tool.call.dispatch", "--limit", "1000") {
		if p.Tool == "tool.fs.read" {
			ordered++
		}
	}
	if ordered != 7 {
		t.Errorf("%d calls were ordered, want 7", ordered)
	}
}
