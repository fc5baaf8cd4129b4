package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/test/site"
)

// shownState is how a provider is, as it is shown.
type shownState struct {
	Ready  bool                `json:"ready"`
	Reason capabilities.Reason `json:"reason"`
	Fix    string              `json:"fix"`
	Tools  []struct {
		Upstream string `json:"upstream"`
		State    string `json:"state"`
	} `json:"tools"`
}

// Servers that are dead or silent, that cut their answers off, flood, want another credential, or
// change their lists all the time: of each the built program says its exact code, calls of a good
// one go on meanwhile, and each is named with what is wrong with it.
func TestServersThatAreDeadOrSilent(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json")
	base := ready.HTTP
	if !strings.HasPrefix(base, "http") {
		base = "http://" + base
	}
	token, err := os.ReadFile(filepath.Join(home, "site", "gateway", "agent.token"))
	must(t, err)
	agent := newCaller(t, base, strings.TrimSpace(string(token)))

	over := make(chan struct{})
	var end sync.Once
	stop := func() { end.Do(func() { close(over) }) }
	defer stop()
	atCall := func(answer func(rw http.ResponseWriter, r *http.Request)) func(string, http.ResponseWriter, *http.Request) bool {
		return func(method string, rw http.ResponseWriter, r *http.Request) bool {
			if method == "tools/call" {
				answer(rw, r)
			}
			return method == "tools/call"
		}
	}
	const open = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`
	servers := map[string]struct {
		fault  func(method string, rw http.ResponseWriter, r *http.Request) bool
		code   capabilities.Code
		reason capabilities.Reason // of the provider, afterwards
	}{
		"good": {},
		"dead": {code: capabilities.CodeExecutionFailed}, // and after a pause its calls are tried again
		"silent": {atCall(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-over:
			case <-r.Context().Done():
			}
		}), capabilities.CodeDeadlineExceeded, ""},
		"cut": {atCall(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Content-Length", "100000")
			fmt.Fprint(rw, open)
		}), capabilities.CodeUnknownOutcome, ""},
		"huge": {atCall(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, err := fmt.Fprint(rw, open)
			block := bytes.Repeat([]byte("x"), 1<<20)
			for n := 0; n < 200 && err == nil; n++ {
				_, err = rw.Write(block)
			}
		}), capabilities.CodeResultTooLarge, ""},
		"shut": {func(_ string, rw http.ResponseWriter, _ *http.Request) bool {
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}, capabilities.CodeSecretUnavailable, capabilities.ReasonNeedsSignIn},
	}
	all := map[string]*words{}
	add := func(name string) *words {
		w := newWords(t)
		w.say(saying("Echoes."))
		p.does("provider", "add", "mcp", name, "--http", w.URL, "--yes")
		return w
	}
	for name := range servers {
		all[name] = add(name)
	}
	all["restless"] = add("restless")
	state := func(name string) shownState { t.Helper(); return items[shownState](p, "provider", "show", name)[0] }
	call := func(name string) capabilities.Result {
		r, err := agent.call(ctx(), capabilities.ToolID("tool."+name+".echo"), `{}`, "")
		if err != nil {
			r.Message = err.Error()
		}
		return r
	}
	for name, w := range all {
		if r := call(name); r.Status != capabilities.StatusOK {
			t.Fatalf("%s, while it is well: %+v", name, r)
		}
		if f := servers[name].fault; f != nil {
			w.fails(f)
		}
	}
	all["dead"].CloseClientConnections()
	all["dead"].Close()
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := 0; ; n++ {
			all["restless"].say(saying(fmt.Sprintf("Echoes %d.", n)))
			select {
			case <-over:
				return
			case all["restless"].news <- struct{}{}:
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	defer changing.Wait()
	defer stop()

	type ended struct {
		name string
		r    capabilities.Result
	}
	results := make(chan ended, len(servers))
	for name := range servers {
		go func() { results <- ended{name, call(name)} }()
	}
	until(t, "the restless one's tool to be in review", func() bool {
		for _, tool := range state("restless").Tools {
			if tool.Upstream == "echo" && tool.State == "review" {
				return true
			}
		}
		return false
	})
	want(t, call("restless"), capabilities.StatusError, capabilities.CodeUnknownTool)
	want(t, call("good"), capabilities.StatusOK, "")
	for range servers {
		e := await(t, "a call's end", results)
		s := servers[e.name]
		if e.r.Code != s.code || (s.code == "") != (e.r.Status == capabilities.StatusOK) || s.code != "" && e.r.Hint == "" {
			t.Errorf("%s: %s %s: %s (%s), want %q", e.name, e.r.Status, e.r.Code, e.r.Message, e.r.Hint, s.code)
		}
		if s.reason != "" {
			if got := state(e.name); got.Ready || got.Reason != s.reason || got.Fix == "" {
				t.Errorf("%s: ready %v, %s: %s", e.name, got.Ready, got.Reason, got.Fix)
			}
		}
	}
	want(t, call("good"), capabilities.StatusOK, "")
}
