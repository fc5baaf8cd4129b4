package e2e

import (
	"encoding/json"
	"fmt"
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

// TestQuestionsAtOnce: a call at the first gateway waits for a person, who answers at another. Of
// two who answer at once at two gateways one counts. A gateway that is killed leaves no question
// open.
func TestQuestionsAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	first, second, third := f.all[0], f.all[1], f.all[2]
	type ended struct {
		r   capabilities.Result
		out string
	}
	writes := func(file string) <-chan ended {
		done := make(chan ended, 1)
		go func() {
			var e ended
			e.out, _ = first.tries("", "call", "--agent", "tool.fs.write", fmt.Sprintf(`{"path":%q,"content":"x"}`, file), "--json")
			_ = json.Unmarshal([]byte(strings.TrimSpace(e.out)), &e.r)
			done <- e
		}()
		return done
	}
	asked := func(at *person) (q api.Approval) {
		t.Helper()
		desk.Await(t, "a question at another gateway", func() bool {
			all := items[api.Approval](at, "approvals")
			if len(all) == 1 {
				q = all[0]
			}
			return len(all) == 1
		})
		return q
	}
	written := func(file string) bool { _, err := os.Stat(filepath.Join(f.home, "files", file)); return err == nil }

	// Answered elsewhere.
	call := writes("b.txt")
	q := asked(second)
	if q.Tool != "tool.fs.write" || q.Question == nil || len(q.Question.Fields) == 0 {
		t.Errorf("what is told at another gateway: %+v", q)
	}
	if other := asked(third); other.ID != q.ID {
		t.Errorf("the third lists %s, the second %s", other.ID, q.ID)
	}
	second.does("approve", q.ID, "--acknowledge")
	if e := <-call; e.r.Status != capabilities.StatusOK || !written("b.txt") {
		t.Fatalf("the call that was allowed at another gateway: %s", e.out)
	}
	for _, at := range f.all {
		if out, code := at.tries("", "deny", q.ID); code == 0 || !strings.Contains(out, "answered first") {
			t.Errorf("answered again: %d %s", code, out)
		}
	}
	// A no.
	call = writes("c.txt")
	third.does("deny", asked(third).ID, "--reason", "not that one")
	if e := <-call; e.r.Code != capabilities.CodeConsentDenied || !strings.Contains(e.out, "not that one") || written("c.txt") {
		t.Errorf("the call that was denied at another gateway: %s", e.out)
	}
	// Two answer at once: one counts.
	call = writes("d.txt")
	q = asked(second)
	var both sync.WaitGroup
	codes := make([]int, 2)
	for i, at := range []*person{second, third} {
		both.Go(func() { _, codes[i] = at.tries("", "approve", q.ID, "--acknowledge") })
	}
	both.Wait()
	if (codes[0] == 0) == (codes[1] == 0) {
		t.Errorf("of two answers, with %v, one counts", codes)
	}
	if e := <-call; e.r.Status != capabilities.StatusOK {
		t.Errorf("%s", e.out)
	}
	if n := strings.Count(second.does("ledger", "show", "--kind", "gateway.approval.answered", "--json"), q.ID); n != 1 {
		t.Errorf("%d answers to %s on record, want 1", n, q.ID)
	}
	// The gateway that asked is killed.
	call = writes("e.txt")
	q = asked(second)
	f.run[0].signal(syscall.SIGKILL)
	<-call
	desk.Await(t, "the question to be closed", func() bool { return len(items[api.Approval](third, "approvals")) == 0 })
	desk.Await(t, "its end on record", func() bool {
		return strings.Contains(third.does("ledger", "show", "--kind", "gateway.approval.closed", "--json"), q.ID)
	})
	if out, code := second.tries("", "approve", q.ID, "--acknowledge"); code == 0 {
		t.Errorf("an answer that nobody waits for counted: %s", out)
	}
	if written("e.txt") {
		t.Error("it was carried out")
	}
	if out := third.does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
