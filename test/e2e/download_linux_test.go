package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// A file that Chrome downloads stands in the ledger under the call that had it asked for. One that
// comes while that call runs stands in its own end; one that comes after a later call, which may
// download as well, is told by the next one, with the call that caused it and no other (S1-45).
func TestADownloadIsOfItsCallInTheLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	desk.Need(t, "chromium")
	more, asked := make(chan struct{}), make(chan struct{}, 1)
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<title>Files</title><a id=now href=/now>N</a>
<button id=held onclick="document.body.appendChild(document.createElement('iframe')).src='/held'">H</button>
<button id=count onclick="this.textContent=Number(this.textContent)+1">0</button>`)
		case "/now":
			w.Header().Set("Content-Disposition", "attachment; filename=now.bin")
			_, _ = w.Write(make([]byte, 1000))
		case "/held": // no answer until told
			asked <- struct{}{}
			select {
			case <-more:
				w.Header().Set("Content-Disposition", "attachment; filename=held.bin")
				_, _ = w.Write(make([]byte, 1000))
			case <-r.Context().Done():
			}
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(pages.Close)
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "up", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--browser-sandbox", "auto", "--browser-allow-origin", pages.URL)
	must(t, os.WriteFile(filepath.Join(home, "site", "gateway", "policy", "test.cedar"), []byte(`@id("tools") permit (principal, action, resource);`), 0o600))
	p.does("policy", "activate", "--yes")
	token := func(who string) *caller {
		text, err := os.ReadFile(filepath.Join(home, "site", "gateway", who+".token"))
		must(t, err)
		return newCaller(t, "http://"+strings.TrimPrefix(ready.HTTP, "http://"), strings.TrimSpace(string(text)))
	}
	agent, admin := token("agent"), token("admin")
	call := func(tool, args string) capabilities.CallID {
		t.Helper()
		r, err := agent.call(ctx(), capabilities.ToolID("tool.browser."+tool), args, "")
		must(t, err)
		want(t, r, capabilities.StatusOK, "")
		return r.Call
	}
	files := func(of capabilities.CallID) (all []packet.Observed) {
		t.Helper()
		var list struct {
			Packets []api.Packet `json:"packets"`
		}
		admin.ok(http.MethodGet, "/v1/ledger/packets?call="+string(of), "", &list)
		for _, one := range list.Packets {
			if one.Kind != "tool.call.result" {
				continue
			}
			var end packet.End
			must(t, json.Unmarshal(one.Body, &end))
			for _, o := range end.Observed {
				if o.Key == "data.write.temp" {
					all = append(all, o)
				}
			}
		}
		return all
	}
	// told is the first of these calls and of those that come next whose end tells of a file.
	told := func(calls ...capabilities.CallID) (capabilities.CallID, packet.Observed) {
		t.Helper()
		for end := time.Now().Add(site.Within); time.Now().Before(end); calls = append(calls, call("snapshot", `{}`)) {
			for _, one := range calls {
				if list := files(one); len(list) == 1 {
					return one, list[0]
				} else if len(list) > 1 {
					t.Fatalf("%s: %+v", one, list)
				}
			}
		}
		t.Fatal("no file is in the ledger")
		return "", packet.Observed{}
	}

	call("navigate", fmt.Sprintf(`{"url":%q}`, pages.URL+"/"))
	now := call("click", `{"selector":"#now"}`)
	by, file := told(now)
	if of := capabilities.CallID(file.Of); !strings.Contains(file.Detail, "now.bin") || by == now && of != "" || by != now && of != now {
		t.Errorf("%s tells %+v of %s", by, file, now)
	}

	first := call("click", `{"selector":"#held"}`)
	select {
	case <-asked:
	case <-time.After(site.Within):
		t.Fatal("nobody asked for the file")
	}
	second := call("click", `{"selector":"#count"}`)
	if len(files(first))+len(files(second)) != 0 {
		t.Fatalf("%+v %+v", files(first), files(second))
	}
	close(more)
	by, file = told()
	if by == first || by == second || capabilities.CallID(file.Of) != first || !strings.Contains(file.Detail, "held.bin") {
		t.Errorf("%s tells %+v; the file is of %s, and %s came later", by, file, first, second)
	}
	var drift api.DriftList
	admin.ok(http.MethodGet, "/v1/drift", "", &drift)
	if len(drift.Events) != 0 {
		t.Errorf("each was granted it: %+v", drift.Events)
	}
}
