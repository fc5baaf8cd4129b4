package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// TestAKilledWorkersTurnIsLost: a run of the built program is killed while its model answers. Its
// turn was known from its beginning, and is lost once its lease is over; the record has no packet
// of it, and old programs are not shown it (S2-43).
func TestAKilledWorkersTurnIsLost(t *testing.T) {
	home := privateDir(t)
	program := filepath.Join(home, "handrail")
	site.Program(t, program)
	s := site.Start(t, site.Options{Door: func(o *gateway.Options) { o.TurnLease = 10 * time.Second }})
	token := s.MustToken("robot", principal.RoleAgent)
	never, asked := make(chan struct{}), make(chan struct{}, 1)
	e := modeltest.Start(t, `{"intent":"chat_only","confidence":0.9}`, func(int, modeltest.Request) modeltest.Step {
		asked <- struct{}{}
		return modeltest.Step{Text: "Once upon a time", Hang: never}
	})
	run := exec.CommandContext(t.Context(), program, "run", "--model", "small", "--endpoint", e.URL, "/chat tell me a story")
	run.Env = append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"), "HANDRAIL_URL="+s.URL(), "HANDRAIL_TOKEN="+token)
	must(t, run.Start())
	<-asked
	c, err := client.New(s.URL(), client.NewToken(token))
	must(t, err)
	var one api.Turn
	until(t, "the turn that runs", func() bool {
		list, err := c.Turns(t.Context(), 0)
		must(t, err)
		if len(list) == 1 {
			one = list[0]
		}
		return one.State == turn.Running && len(one.Stages) > 1
	})
	must(t, run.Process.Kill())
	_ = run.Wait()
	ctx, over := context.WithTimeout(t.Context(), site.Within)
	defer over()
	must(t, c.WatchTurn(ctx, one.ID, func(now api.Turn) error { one = now; return nil }))
	if one.State != turn.Lost || one.Summary() != nil || one.SoFar().Intent != "chat_only" || one.First != 0 {
		t.Errorf("%+v", one)
	}
	var old api.TurnList
	must(t, c.Do(ctx, "GET", client.Path("turns"), nil, &old))
	if len(old.Turns) != 0 {
		t.Errorf("a program of before is shown %+v", old)
	}
	list := exec.CommandContext(ctx, program, "turns")
	list.Env = run.Env
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), "lost after ") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestATurnIsFollowed: whoever watches a turn hears of its stages while its call runs, and of its
// end (S2-43).
func TestATurnIsFollowed(t *testing.T) {
	w := newWorked(t)
	must(t, os.WriteFile(filepath.Join(w.work, "..", "site", "gateway", "policy", "bash.cedar"),
		[]byte(`@id("bash") permit (principal, action == Action::"tool.fs.bash", resource);`), 0o600))
	w.does("policy", "activate", "--yes")
	run := w.opens("run", "--offline", `/run "sleep 600"`)
	call := w.running("tool.fs.bash")
	token, err := os.ReadFile(filepath.Join(filepath.Dir(w.program), "site", "gateway", "agent.token"))
	must(t, err)
	c, err := client.New(w.url, client.NewToken(string(token)))
	must(t, err)
	var list []api.Turn
	until(t, "the turn that runs", func() bool {
		list, err = c.Turns(t.Context(), 0)
		must(t, err)
		return len(list) == 1
	})
	if out := w.does("turns"); !strings.Contains(out, list[0].ID) || !strings.Contains(out, "runs for ") {
		t.Errorf("%s", out)
	}
	interrupted := false
	var seen []turn.State
	ctx, over := context.WithTimeout(t.Context(), site.Within)
	defer over()
	must(t, c.WatchTurn(ctx, list[0].ID, func(now api.Turn) error {
		seen, list[0] = append(seen, now.State), now
		if last := now.Stages[len(now.Stages)-1]; last.Stage == turn.Policy || last.Stage == turn.Permission {
			if !interrupted { // its call runs
				run.interrupts()
			}
			interrupted = true
		}
		return nil
	}))
	if one := list[0]; !interrupted || seen[0] != turn.Running || one.State != turn.Ended || one.Ended.IsZero() || one.Summary() == nil || one.First == 0 {
		t.Errorf("%v: %+v", seen, one)
	}
	if out := w.does("turns", "watch", list[0].ID); !strings.Contains(out, "tool.fs.bash: cancelled") || strings.Count(out, "\n") != len(list[0].Stages) {
		t.Errorf("%s", out)
	}
	w.ended(call.ID)
	run.says("interrupted")
}
