package satellites

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/satellite"
)

const httpManifest = `{"check":"/health","tools":[
	{"name":"data","description":"Answers in JSON.","read_only":true,"path":"/v1/data","input":{"type":"object","properties":{"n":{"type":"integer","minimum":0,"maximum":9}},"additionalProperties":false}},
	{"name":"words","description":"Answers in words.","read_only":true},
	{"name":"bytes","description":"Answers in bytes.","read_only":true},
	{"name":"moved","description":"Leads elsewhere.","read_only":true},
	{"name":"broken","description":"Fails.","read_only":true},
	{"name":"ends","description":"Ends."},
	{"name":"ends-reading","description":"Ends.","read_only":true},
	{"name":"cut","description":"Breaks off."}]}`

// An HTTP service is a backing service, and the satellite in front of it the provider (S3-10): each
// call is a POST, and the heartbeat says whether the service answers.
func TestAnHTTPService(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	var down atomic.Bool
	var asked atomic.Value
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/health":
			if down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/v1/data":
			asked.Store(r.Method + " " + string(body))
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"Answer":42,"answer":"both"}`)
		case "/words":
			_, _ = io.WriteString(w, "hello")
		case "/bytes":
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG")
		case "/ends", "/ends-reading":
			panic(http.ErrAbortHandler)
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "begun")
		case "/moved":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		default:
			http.Error(w, "no model", http.StatusTeapot)
		}
	}))
	t.Cleanup(web.Close)
	o := satellite.Options{Name: "model", Dir: t.TempDir(), Paste: h.invite("model")}
	must(t, satellite.HTTP(&o, web.URL, []byte(httpManifest)))
	run(t, o)
	p := h.approve("model")
	h.callable("tool.model.data")
	r := h.call("tool.model.data", `{"n":3}`, "")
	want(t, r, capabilities.StatusOK, "")
	if !strings.Contains(string(r.Output), `"Answer":42`) || asked.Load() != `POST {"n":3}` {
		t.Errorf("%s of %v", r.Output, asked.Load())
	}
	if r := h.call("tool.model.words", `{}`, ""); !strings.Contains(string(r.Output), `"text":"hello"`) {
		t.Errorf("words %s %s", r.Output, r.Message)
	}
	if r := h.call("tool.model.bytes", `{}`, ""); len(r.Blobs) != 1 || r.Blobs[0].MIME != "image/png" || string(r.Blobs[0].Bytes) != "\x89PNG" {
		t.Errorf("bytes %+v %s", r.Blobs, r.Message)
	}
	for _, tool := range []capabilities.ToolID{"tool.model.moved", "tool.model.broken", "tool.model.ends-reading"} {
		want(t, h.call(tool, `{}`, ""), capabilities.StatusError, capabilities.CodeExecutionFailed)
	}
	// Nobody can tell how much a service did that had the request and ended, unless it only reads.
	for _, tool := range []capabilities.ToolID{"tool.model.ends", "tool.model.cut"} {
		want(t, h.call(tool, `{}`, ""), capabilities.StatusError, capabilities.CodeUnknownOutcome)
	}
	down.Store(true)
	within(t, "the heartbeat to say so", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Health == bus.HealthNotReady && strings.Contains(v.Why, "503")
	})
	want(t, h.call("tool.model.words", `{}`, ""), capabilities.StatusError, capabilities.CodeNodeNotReady)

	for bad, at := range map[string]string{httpManifest: "ftp://x", `{"tools":[{"name":"a","privileged":true}]}`: web.URL, `{`: web.URL} {
		if err := satellite.HTTP(&satellite.Options{}, at, []byte(bad)); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%.40s at %s: %v", bad, at, err)
		}
	}
}

// A domain of plumbing may have a tool, on its own subjects, and stays plumbing (S3-22, S3-23,
// S3-25, S3-29).
func TestPlumbingStaysPlumbing(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e := &echo{}
	list := e.tool()
	list.Name = "list-prs"
	run(t, satellite.Options{Name: "gh", Dir: t.TempDir(), Paste: h.invite("gh"), Tools: []satellite.Tool{list}})
	p := h.approve("gh")
	h.callable("tool.gh.list-prs")
	want(t, h.call("tool.gh.list-prs", `{"text":"x"}`, ""), capabilities.StatusOK, "")
	// All ten have their subjects, and none of them is a tool's.
	plumbing := tools.PlumbingDomains()
	if want := []string{"audit", "blob", "cli", "event", "gh", "jobs", "llm", "outbound", "turns", "verify"}; !slices.Equal(plumbing, want) {
		t.Errorf("plumbing is %q", plumbing)
	}
	for _, domain := range plumbing {
		if at := remote.Heartbeats(domain, "x"); at != "factory."+domain+".heartbeat-x" || !slices.Contains(remote.Discovery(), "factory."+domain+".*") {
			t.Errorf("%s is at %s", domain, at)
		}
	}
	if d := p.Tools[0].Descriptor; d.Nature != catalog.NaturePlumbing || d.Layer != catalog.LayerRemote {
		t.Errorf("it is %s of %s", d.Nature, d.Layer)
	}
}
