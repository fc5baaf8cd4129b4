package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/test/site"
)

// plane is a site whose one node hosts MCP servers, each with the tools echo and other.
type plane struct {
	*site.Site
	node    *site.Node
	admin   *caller
	servers []*words
}

func (p *plane) tool(n int) capabilities.ToolID {
	return capabilities.ToolID(fmt.Sprintf("tool.p%d.echo", n))
}

// newPlane adds and approves that many.
func newPlane(t testing.TB, providers int) *plane {
	t.Helper()
	walls, err := site.NewWalls()
	if err != nil {
		t.Skip(err)
	}
	p := &plane{Site: site.Start(t, site.Options{ApprovalWait: time.Minute})}
	p.node = p.AddNodeWith("desk", hosts(t, walls), site.NewHandler())
	p.node.AwaitReady("tyrum.provider.host")
	p.admin = newCaller(t, p.URL(), p.MustToken("admin", principal.RoleAdmin))
	var ready []capabilities.CapabilityID
	for n := range providers {
		w := newWords(t)
		w.say(saying("Echoes."))
		p.servers = append(p.servers, w)
		body, err := json.Marshal(api.AddProvider{Name: fmt.Sprintf("p%d", n), Kind: "mcp", Host: p.node.ID, URL: w.URL})
		must(t, err)
		var added api.Provider
		p.admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
		approved(t, p.admin, added, "allow")
		ready = append(ready, capabilities.CapabilityID(fmt.Sprintf("tyrum.p%d.echo", n)))
	}
	p.node.AwaitReady(ready...)
	return p
}

// Twenty servers at once, of which one is dead, one never answers, one answers with 200 MB and one
// changes its list every 10 ms: lists and calls of the others end while those still hang.
func TestTwentyProviders(t *testing.T) {
	t.Parallel()
	const dead, silent, huge, restless = 0, 1, 2, 3
	p := newPlane(t, 20)
	over := make(chan struct{})
	var end sync.Once
	stop := func() { end.Do(func() { close(over) }) }
	defer stop()
	p.servers[dead].CloseClientConnections()
	p.servers[dead].Close()
	asked := make(chan struct{}, 16)
	p.servers[silent].fails(func(_ string, _ http.ResponseWriter, r *http.Request) bool {
		asked <- struct{}{}
		select {
		case <-over:
		case <-r.Context().Done():
		}
		return true
	})
	p.servers[huge].fails(func(method string, rw http.ResponseWriter, _ *http.Request) bool {
		if method != "tools/call" {
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		block := bytes.Repeat([]byte("x"), 1<<20)
		_, err := rw.Write([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"`))
		for range 200 {
			if err == nil {
				_, err = rw.Write(block)
			}
		}
		return true
	})
	var changing sync.WaitGroup
	changing.Go(func() {
		for n := 0; ; n++ {
			p.servers[restless].say(saying(fmt.Sprintf("Echoes %d.", n)))
			select {
			case <-over:
				return
			case p.servers[restless].news <- struct{}{}:
			case <-time.After(10 * time.Millisecond):
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	defer changing.Wait()
	defer stop()

	hanging := make(chan capabilities.Result, 1)
	go func() { hanging <- p.Call(ctx(), p.tool(silent), `{}`, "") }()
	<-asked
	flood := make(chan capabilities.Result, 1)
	go func() { flood <- p.Call(ctx(), p.tool(huge), `{}`, "") }()

	list := func() (names []string) {
		t.Helper()
		c := newCaller(t, p.URL(), p.MustToken("agent", principal.RoleAgent))
		mcp, err := sdk.NewClient(&sdk.Implementation{Name: "e2e", Version: "1"}, nil).Connect(ctx(),
			&sdk.StreamableClientTransport{Endpoint: p.URL() + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: bearer{c}}}, nil)
		must(t, err)
		defer func() { _ = mcp.Close() }()
		offered, err := mcp.ListTools(ctx(), nil)
		must(t, err)
		for _, tool := range offered.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	for range 3 {
		names := list()
		for n := restless + 1; n < 20; n++ {
			if !slices.Contains(names, p.tool(n).WireName()) {
				t.Fatalf("%s is not listed: %v", p.tool(n), names)
			}
			want(t, p.Call(ctx(), p.tool(n), `{}`, ""), capabilities.StatusOK, "")
		}
	}
	if r := p.Call(ctx(), p.tool(dead), `{}`, ""); r.Status == capabilities.StatusOK {
		t.Errorf("a dead server answered: %+v", r)
	}
	select {
	case r := <-hanging:
		t.Errorf("the silent server's call ended meanwhile: %+v", r)
	default:
	}
	if r := <-flood; r.Status != capabilities.StatusError || r.Code != capabilities.CodeResultTooLarge || len(r.Output) > 1<<20 {
		t.Errorf("200 MB became %s %s, %d bytes", r.Status, r.Code, len(r.Output))
	}
	// The restless one says something else than was approved: it waits for somebody to look, and the
	// other of its tools goes on.
	until(t, "the restless server's tool to be in review", func() bool {
		return p.admin.diff(string(p.tool(restless))).State == "review"
	})
	want(t, p.Call(ctx(), p.tool(restless), `{}`, ""), capabilities.StatusError, capabilities.CodeUnknownTool)
	want(t, p.Call(ctx(), "tool.p3.other", `{}`, ""), capabilities.StatusOK, "")
	stop()
	if r := <-hanging; r.Status == capabilities.StatusOK {
		t.Errorf("a server that never answers: %+v", r)
	}
}

// BenchmarkPlaneList is the list of tools for a lane of 20 providers, of which one is dead, as a
// client gets it; its floor is the answer that the same server has to everybody.
func BenchmarkPlaneList(b *testing.B) {
	p := newPlane(b, 20)
	p.servers[0].CloseClientConnections()
	p.servers[0].Close()
	p.Call(ctx(), p.tool(0), `{}`, "")
	c := newCaller(b, p.URL(), p.MustToken("agent", principal.RoleAgent))
	ask := func(b *testing.B, address, within string) {
		for b.Loop() {
			status, answer := c.do(http.MethodGet, address, "")
			if status != http.StatusOK || !strings.Contains(string(answer), within) {
				b.Fatalf("%d %.200s", status, answer)
			}
		}
	}
	b.Run("list", func(b *testing.B) { ask(b, "/v1/tools", string(p.tool(19))) })
	b.Run("floor", func(b *testing.B) { ask(b, "/healthz", "ok") })
}

// BenchmarkPlaneCall is a call of an imported tool beside the same server called directly, and
// beside a call that the same node answers by itself: the floor on which every call stands.
func BenchmarkPlaneCall(b *testing.B) {
	p := newPlane(b, 1)
	direct, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx(),
		&sdk.StreamableClientTransport{Endpoint: p.servers[0].URL, MaxRetries: -1}, nil)
	must(b, err)
	defer func() { _ = direct.Close() }()
	site.Measure(b,
		p.measured(b, "imported", p.tool(0), `{}`),
		site.Measured{Name: "direct", Do: func() {
			if _, err := direct.CallTool(ctx(), &sdk.CallToolParams{Name: "echo"}); err != nil {
				b.Fatal(err)
			}
		}},
		p.measured(b, "node", "tool.fixture.echo", `{"text":"a"}`))
}

// measured is one call of a tool that has to go well.
func (p *plane) measured(b *testing.B, name string, tool capabilities.ToolID, args string) site.Measured {
	return site.Measured{Name: name, Do: func() {
		if r := p.Call(ctx(), tool, args, ""); r.Status != capabilities.StatusOK {
			b.Fatalf("%s: %+v", tool, r)
		}
	}}
}

// BenchmarkPlaneMacro is a macro of ten steps beside one call of the tool that each of them calls.
func BenchmarkPlaneMacro(b *testing.B) {
	p := newPlane(b, 0)
	file := "description: Says ten things.\nsteps:\n"
	for n := range 10 {
		file += fmt.Sprintf("  - {id: s%d, tool: tool.fixture.echo, with: {text: said}}\n", n)
	}
	body, err := json.Marshal(api.AddProvider{Name: "ten", Kind: "macro", Manifest: file})
	must(b, err)
	var added api.Provider
	p.admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
	approved(b, p.admin, added, "allow")
	site.Measure(b, p.measured(b, "macro", "tool.macro.ten", `{}`), p.measured(b, "single", "tool.fixture.echo", `{"text":"said"}`))
}
