package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestADrainAtOnce: a gateway of three is drained while a call of it waits for a person. It takes
// no new calls, and can take them again. The call ends as ever, its device goes to another gateway,
// and the gateway ends by itself.
func TestADrainAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	first, second := f.all[0], f.all[1]
	type ended struct {
		r   capabilities.Result
		out string
	}
	calls := func(p *person, tool, args string) (e ended) {
		e.out, _ = p.tries("", "call", "--agent", tool, args, "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(e.out)), &e.r)
		return e
	}
	reads := func(p *person) ended { return calls(p, "tool.fs.read", `{"path":"a.txt"}`) }
	works := func(p *person, when string) {
		t.Helper()
		desk.Await(t, "a call "+when, func() bool { return reads(p).r.Status == capabilities.StatusOK })
	}
	works(first, "before")
	waits := make(chan ended, 1)
	go func() { waits <- calls(first, "tool.fs.write", `{"path":"b.txt","content":"x"}`) }()
	var asked []api.Approval
	desk.Await(t, "the question", func() bool { asked = items[api.Approval](second, "approvals"); return len(asked) == 1 })

	first.does("gateway", "drain", "--no-wait")
	if e := reads(first); e.r.Code != capabilities.CodeOverloaded {
		t.Errorf("a new call at a gateway that is drained: %s", e.out)
	}
	first.does("gateway", "drain", "--cancel")
	works(first, "after the drain was cancelled")
	if e := items[api.Approval](second, "approvals"); len(e) != 1 {
		t.Errorf("the drain ended what waited: %+v", e)
	}

	// The person who waits for its end leaves: it takes calls again.
	var event struct{ Event string }
	left := first.runs(&event, "gateway", "drain", "--json")
	if event.Event != "draining" {
		t.Errorf("it began with %+v", event)
	}
	if e := reads(first); e.r.Code != capabilities.CodeOverloaded {
		t.Errorf("a new call while somebody waits for its end: %s", e.out)
	}
	left.signal(syscall.SIGINT)
	<-left.over
	works(first, "after Ctrl-C")

	drained := make(chan string, 1)
	go func() {
		out, code := first.tries("", "gateway", "drain", "--json")
		drained <- fmt.Sprintf("%d %s", code, out)
	}()
	desk.Await(t, "the drain to begin", func() bool { return reads(first).r.Code == capabilities.CodeOverloaded })
	second.does("approve", asked[0].ID, "--acknowledge")
	if e := <-waits; e.r.Status != capabilities.StatusOK {
		t.Errorf("the call that waited: %s", e.out)
	}
	out := <-drained
	if !strings.HasPrefix(out, "0 ") || !strings.Contains(out, `"event":"draining"`) || !strings.Contains(out, `"event":"leaving"`) ||
		!strings.HasSuffix(strings.TrimSpace(out), `{"event":"drained"}`) {
		t.Errorf("%s", out)
	}
	<-f.run[0].over
	if code := f.run[0].cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the gateway ended with %d", code)
	}
	works(second, "at another gateway")
	for _, kind := range []string{"gateway.drain.began", "gateway.drain.cancelled"} {
		if !strings.Contains(second.does("ledger", "show", "--kind", kind, "--json"), kind) {
			t.Errorf("the ledger has no %s", kind)
		}
	}
	if out := second.does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
