package workers

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/gateway/api"
)

// answering is a gateway that answers every request alike, and returns the last one's body.
func answering(t *testing.T, status int, answer string) (body func() string) {
	t.Helper()
	var last atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		last.Store(string(data))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Setenv("HANDRAIL_URL", s.URL)
	t.Setenv("HANDRAIL_TOKEN", "token")
	return func() string { return last.Load().(string) }
}

// TestACallNamesWhatItsTurnOpened: a turn that opened nothing says so with its calls, and one that
// has not begun says nothing (S2-20).
func TestACallNamesWhatItsTurnOpened(t *testing.T) {
	body := answering(t, http.StatusOK, `{"status":"denied"}`)
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(io.Discard)
	r, err := remote.Find(cmd)
	if err != nil {
		t.Fatal(err)
	}
	g := &workerGateway{cmd: cmd, remote: r}
	inside := &workerGateway{cmd: cmd, remote: r, opts: runOptions{inside: &api.Job{ID: "job_1", Claim: "c"}}}
	of := &workerGateway{cmd: cmd, remote: r, requests: requestIDs("job_2.1")}
	for _, c := range []struct {
		opens  []capabilities.ToolID
		opened string
	}{
		{nil, ""}, {[]capabilities.ToolID{}, `"opened":[]`}, {[]capabilities.ToolID{"tool.fs.list"}, `"opened":["tool.fs.list"]`},
	} {
		for _, g := range []*workerGateway{g, inside, of} { // of a conversation, a sub-agent, a job
			g.Opens(c.opens)
			if _, err := g.Call(t.Context(), "tool.fs.read", json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
			if got := body(); !strings.Contains(got, c.opened) || strings.Contains(got, `"opened"`) != (c.opened != "") ||
				strings.Contains(got, `"job_id":"job_1"`) != (g == inside) {
				t.Errorf("after %q the gateway was sent %s", c.opens, got)
			}
		}
	}
}

// TestAJobsCallsDoNotSpeakOfTheirNames: the worker of a job chose the request ID of a call, and its
// person did not: no words tell them to use another.
func TestAJobsCallsDoNotSpeakOfTheirNames(t *testing.T) {
	for hint, want := range map[string]string{"Wait. " + capabilities.AnswerKept: "Wait.", capabilities.AnswerKept: "", "Wait.": "Wait."} {
		data, err := json.Marshal(capabilities.Result{Call: "c", Status: capabilities.StatusError, Code: capabilities.CodeOverloaded, Hint: hint})
		if err != nil {
			t.Fatal(err)
		}
		answering(t, http.StatusOK, string(data))
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetErr(io.Discard)
		r, err := remote.Find(cmd)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range []*workerGateway{{cmd: cmd, remote: r, requests: requestIDs("job_1.1")}, {cmd: cmd, remote: r}} {
			got, err := g.Call(t.Context(), "tool.fs.read", json.RawMessage(`{}`))
			if g.requests == nil {
				want = hint // a caller's own
			}
			if err != nil || got.Hint != want {
				t.Errorf("%q: %q %v", hint, got.Hint, err)
			}
		}
	}
}

// TestACallWaitsAsLongAsItsTurn: a question outlasts one request, so that a call which nobody has
// answered joins it again where somebody may answer, and nowhere else (S2-29, S2-32).
func TestACallWaitsAsLongAsItsTurn(t *testing.T) {
	var asked atomic.Int64
	task := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if asked.Add(1) == 1 {
			_, _ = io.WriteString(w, `{"status":"pending","code":"approval_pending","details":{"approval":"a-1"`+task+`}}`)
			return
		}
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	t.Cleanup(s.Close)
	t.Setenv("HANDRAIL_URL", s.URL)
	t.Setenv("HANDRAIL_TOKEN", "token")
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	cmd.SetErr(io.Discard)
	r, err := remote.Find(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opts  runOptions
		task  string
		calls int64
	}{
		"nobody may answer": {calls: 1},
		"somebody may":      {opts: runOptions{wait: true}, calls: 2},
		"for a sub-agent":   {opts: runOptions{inside: &api.Job{ID: "job_1", Claim: "c"}}, calls: 2},
		"the gateway keeps": {opts: runOptions{wait: true}, task: `,"task":"t-1"`, calls: 1},
	} {
		asked.Store(0)
		task = c.task
		g := &workerGateway{cmd: cmd, remote: r, opts: c.opts}
		got, err := g.Call(t.Context(), "tool.fs.bash", json.RawMessage(`{}`))
		if n := asked.Load(); err != nil || n != c.calls || (got.Status == capabilities.StatusOK) != (c.calls == 2) || got.Status == capabilities.StatusOK && got.Code != "" {
			t.Errorf("%s: asked %d times: %+v, %v", name, n, got, err)
		}
	}
}
