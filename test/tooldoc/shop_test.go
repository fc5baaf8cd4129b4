package tooldoc

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/platform/chrome"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/site"
)

// pages are the shop that the examples happen in.
var pages = map[string]string{
	"/": `<!doctype html><link rel=icon href=data:,><title>Shop</title><style>body{font:16px sans-serif}</style>
<h1>Shop</h1>
<p>Basket: <output id=basket>empty</output></p>
<form onsubmit="return false"><label>Search <input id=q></label></form>
<ul><li>Bolt M8 <button onclick="basket.value='1 bolt'">Add bolt</button></li>
<li>Nut M8 <button onclick="basket.value='1 nut'">Add nut</button></li>
<li>Washer <button disabled>Add washer</button></li></ul>
<a href=/order>Order</a> <a href=/prices.csv download>Price list</a>`,
	"/order": `<!doctype html><link rel=icon href=data:,><title>Order</title><style>body{font:16px sans-serif}</style>
<h1>Order</h1>
<form onsubmit="return false">
<label>Name <input id=name></label>
<label>Mail <input id=mail type=email></label>
<label for=delivery>Delivery</label> <select id=delivery><option value=std>Standard<option value=exp>Express</select>
<label><input id=gift type=checkbox> As a gift</label>
<label>Drawing <input id=file type=file></label>
<button onclick="sent.hidden=!confirm('Order for 12.50 EUR?')">Send order</button>
<p id=sent hidden>Thank you</p>
</form>`,
	"/board": `<!doctype html><link rel=icon href=data:,><title>Board</title><style>body{font:16px sans-serif}div{padding:12px;border:1px solid;margin:8px;width:160px}
nav ul{display:none} nav:hover ul{display:block}#list{height:60px;overflow:auto}</style>
<h1>Board</h1>
<nav><span class=more tabindex=0>More</span><ul><li><a href=/>Shop</a></ul></nav>
<div id=todo class=column>To do <div id=card draggable=true ondragstart="event.dataTransfer.setData('text/plain','card')">Call Ada</div></div>
<div id=done class=column ondragover="event.preventDefault()" ondrop="this.append(card)">Done</div>
<div style="position:relative"><button id=archive>Archive</button><span class=cookies style="position:absolute;inset:0;background:#eee">Accept cookies</span></div>`,
	"/soon": `<!doctype html><link rel=icon href=data:,><title>Soon</title><p id=state class=spinner>Working</p>
<script>console.warn('stock is low');console.error('no price for item 7');
fetch('/stock').then(r=>r.json()).then(s=>setTimeout(()=>{state.className='';state.textContent='Thank you, '+s.bolts+' left'},100))</script>`,
}

// place is where the examples happen: a gateway, a node and Chrome, all real.
type place struct {
	t       *testing.T
	web     *httptest.Server
	site    *site.Site
	token   string
	folders map[string]string // a folder of this test → what the page calls it
	lanes   int
}

const shownOrigin = "https://shop.example"

func open(t *testing.T) *place {
	t.Helper()
	finder := chrome.New(chrome.Options{})
	found, err := finder.Find(t.Context())
	if err != nil {
		t.Skipf("answers need a real Chrome: %v", err)
	}
	p := &place{t: t, folders: map[string]string{}}
	p.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch body, ok := pages[r.URL.Path]; {
		case ok:
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, body)
		case r.URL.Path == "/stock":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Set-Cookie", "session=HUNTER2")
			fmt.Fprint(w, `{"bolts":42}`)
		case r.URL.Path == "/prices.csv":
			w.Header().Set("Content-Type", "text/csv")
			fmt.Fprint(w, "bolt,0.10\nnut,0.05\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(p.web.Close)
	folder := func(name string) string {
		dir := filepath.Join(t.TempDir(), filepath.Base(name))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.folders[dir] = name
		return dir
	}
	drawings := folder("/home/ada/drawings")
	if err := os.WriteFile(filepath.Join(drawings, "bolt.svg"), []byte("<svg/>"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	o := browser.Options{
		Finder: finder, Launcher: procguard.New(procguard.Options{Log: log}), AllowOrigins: []string{p.web.URL}, Log: log,
		UploadRoots: []string{drawings}, DownloadDir: folder("/home/ada/downloads"), StateDir: folder("/home/ada/state"),
	}
	origin, err := policy.OriginPermit(p.web.URL, "The shop of the examples.")
	if err != nil {
		t.Fatal(err)
	}
	rules := string(origin) + `@id("uploads") permit (principal, action == Action::"tool.browser.upload-file", resource);`
	if found.NoSandbox != "" {
		o.Sandbox = browser.SandboxOff
		rules += `@id("no-sandbox") permit (principal, action == Action::"isolation.accept-degraded", resource);`
	}
	h, err := browser.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	p.site = site.Start(t, site.Options{Rules: rules})
	p.site.AddNode("desk", h)
	p.token = p.site.MustToken("ada", principal.RoleAgent)
	return p
}

// talk is one conversation, in a lane of its own.
type talk struct {
	*place
	session *sdk.ClientSession
}

func (p *place) talk() *talk {
	p.t.Helper()
	p.lanes++
	client := sdk.NewClient(&sdk.Implementation{Name: "tooldoc", Version: "1"}, nil)
	session, err := client.Connect(p.t.Context(), &sdk.StreamableClientTransport{
		Endpoint:   fmt.Sprintf("%s/mcp/l/lesson-%d", p.site.URL(), p.lanes),
		HTTPClient: &http.Client{Transport: bearer(p.token)}, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return &talk{p, session}
}

// end leaves nothing open: a node has room for so many conversations.
func (k *talk) end() {
	k.call("close", `{}`)
	_ = k.session.Close()
}

type bearer string

// RoundTrip adds the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

var refTo = regexp.MustCompile(`\{ref ([^}]+)\}`)

// call makes one call. In args, {ref NAME} stands for the ref of what has that
// name, and /path for the shop's page; filled is args as they were sent, with
// the shop's address as the page shows it.
func (k *talk) call(tool, args string) (filled string, r *sdk.CallToolResult) {
	k.t.Helper()
	for _, m := range refTo.FindAllStringSubmatch(args, -1) {
		args = strings.ReplaceAll(args, m[0], k.ref(m[1]))
	}
	sent := strings.ReplaceAll(args, shownOrigin, k.web.URL)
	r, err := k.session.CallTool(context.Background(), &sdk.CallToolParams{Name: wire(tool), Arguments: json.RawMessage(sent)})
	if err != nil {
		k.t.Fatalf("%s %s: %v", tool, args, err)
	}
	return args, r
}

func (k *talk) ref(name string) string {
	k.t.Helper()
	_, r := k.call("snapshot", `{}`)
	out, _ := r.StructuredContent.(map[string]any)
	outline, _ := out["snapshot"].(string)
	for line := range strings.Lines(outline) {
		if m := regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `".*\[ref=(\w+)\]`).FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	k.t.Fatalf("nothing is called %q in\n%s", name, outline)
	return ""
}

// volatile are the fields whose values differ from run to run, with what the page
// shows instead.
var volatile = map[string]any{
	"file_bytes": 9000,
	"elapsed_ms": 112.0, "duration_ms": 8.0, "version": "Chrome/140.0.7339.80", "at": "2026-03-14T09:26:53Z",
	"dom_ready_ms": 48, "load_ms": 61, "long_tasks": map[string]any{"count": 0, "longest_ms": 0, "blocking_ms": 0},
	"vitals": []any{
		map[string]any{"name": "TTFB", "value": 12, "rating": "good"}, map[string]any{"name": "FCP", "value": 96, "rating": "good"},
		map[string]any{"name": "LCP", "value": 96, "rating": "good"}, map[string]any{"name": "CLS", "value": 0, "rating": "good"},
	},
	"resources": map[string]any{"count": 1, "bytes": 2140, "blocking": 0, "slowest": []any{
		map[string]any{"url": shownOrigin + "/", "kind": "navigation", "ms": 61, "bytes": 2140},
	}},
}

// steady replaces what differs from run to run and machine to machine.
func (p *place) steady(v any) any {
	switch x := v.(type) {
	case string:
		x = strings.ReplaceAll(x, p.web.URL, shownOrigin)
		for dir, shown := range p.folders {
			x = strings.ReplaceAll(x, dir, shown)
		}
		return strings.ReplaceAll(x, strings.TrimPrefix(p.web.URL, "http://"), strings.TrimPrefix(shownOrigin, "https://"))
	case []any:
		for i := range x {
			x[i] = p.steady(x[i])
		}
	case map[string]any:
		for key := range x {
			if shown, ok := volatile[key]; ok {
				x[key] = shown
			} else {
				x[key] = p.steady(x[key])
			}
		}
	}
	return v
}

func wire(tool string) string { return "tool_browser_" + strings.ReplaceAll(tool, "-", "_") }
