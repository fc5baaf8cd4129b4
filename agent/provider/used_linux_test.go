package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// answers is a host that says back what it is sent, line by line.
func answers(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// connecting is a program's side of a provider: it goes where its calls say, by the way that it was
// given, and keeps one connection open.
type connecting struct {
	inside
	t    *testing.T
	to   string
	hold chan struct{} // a call "wait" ends with it

	mu   sync.Mutex
	last Program
	kept net.Conn
}

func newConnecting(t *testing.T) *connecting {
	t.Helper()
	c := &connecting{t: t, to: answers(t), hold: make(chan struct{})}
	c.make = c.server
	t.Cleanup(func() {
		if c.kept != nil {
			_ = c.kept.Close()
		}
	})
	return c
}

func (c *connecting) Start(ctx context.Context, p Program) (Process, error) {
	c.mu.Lock()
	c.last = p
	c.mu.Unlock()
	if !p.Call {
		return c.inside.Start(ctx, p)
	}
	if len(p.Argv) > 1 { // a command's word is the same
		c.does(ctx, p.Argv[len(p.Argv)-1])
	}
	child := newPiped()
	go func() { _, _ = io.Copy(io.Discard, child.in) }()
	_ = child.to.Close()
	child.end()
	return child, nil
}

func (c *connecting) does(ctx context.Context, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "dial":
		conn, err := c.last.Net.Dial(ctx, "tcp", c.to)
		if err != nil {
			c.t.Error(err)
			return
		}
		if c.kept != nil {
			_ = c.kept.Close()
		}
		c.kept = conn
	case "speak":
		line := make([]byte, 3)
		if _, err := c.kept.Write([]byte("hi\n")); err != nil {
			c.t.Error(err)
		}
		if _, err := io.ReadFull(c.kept, line); err != nil {
			c.t.Error(err)
		}
	case "write":
		c.last.Changed("/home/user/place")
	}
}

func (c *connecting) server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Does."}, func(ctx context.Context, _ *mcp.CallToolRequest, in asked) (*mcp.CallToolResult, any, error) {
		if in.Text == "wait" {
			<-c.hold
		} else {
			c.does(ctx, in.Text)
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	return s
}

// observing is an invocation whose observations are kept.
type observing struct {
	mu   sync.Mutex
	list []string
}

func (o *observing) all() []string { o.mu.Lock(); defer o.mu.Unlock(); return slices.Clone(o.list) }

func (o *observing) call(c capabilities.CapabilityID, id capabilities.CallID, text string) capabilities.Invocation {
	inv := invocation(c, `{"text":"`+text+`"}`)
	add := func(one ...any) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = append(o.list, strings.TrimSpace(fmt.Sprintln(one...)))
	}
	inv.Call, inv.Grants = id, []string{capabilities.KeyEgress, capabilities.KeyWrite, capabilities.KeySpawn}
	inv.Observe = func(key, detail string) { add(key, detail) }
	inv.Among = func(key, detail string, granted bool, among ...capabilities.CallID) { add(key, detail, granted, among) }
	return inv
}

// A call has used what it was seen to use: the program that ran, the host that bytes went to, also
// by a connection from before, and the folder that changed. Its provider's further keys are not
// used (S1-43, S1-49).
func TestACallUsesWhatItWasSeenToUse(t *testing.T) {
	c := newConnecting(t)
	server := tools.Provider{Name: "remote", Kind: tools.KindMCP, Command: []string{"server"}, Net: []string{c.to}}
	h := hostOf(t, c, server)
	approve(t, h, "remote")
	spawn, egress := capabilities.KeySpawn+" remote", capabilities.KeyEgress+" "+c.to
	for i, one := range []struct {
		does string
		seen []string
	}{
		{"nothing", []string{spawn}}, {"dial", []string{spawn, egress}}, {"nothing", []string{spawn}}, {"speak", []string{spawn, egress}},
		{"write", []string{spawn, capabilities.KeyWrite + " /home/user/place"}}, {"nothing", []string{spawn}},
	} {
		var o observing
		if _, err := h.Handle(t.Context(), o.call("tyrum.remote.echo", "c", one.does)); err != nil {
			t.Fatal(err)
		}
		if got := o.all(); !slices.Equal(got, one.seen) {
			t.Errorf("call %d, %s: %q, want %q", i, one.does, got, one.seen)
		}
	}

	command := tools.Provider{
		Name: "local", Kind: tools.KindCommand, Net: []string{c.to},
		Manifest: json.RawMessage(`{"tools":[{"name":"a","argv":["true","--","{text}"],"params":{"text":{"type":"string"}},"required":["text"]}]}`),
	}
	h = newHost(t, Options{Dir: t.TempDir(), Start: c, Allowed: true})
	record, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manage(h, capHost, map[string]any{"provider": "local", "record": json.RawMessage(record), "manifest": string(command.Manifest)}); err != nil {
		t.Fatal(err)
	}
	approve(t, h, "local")
	for does, seen := range map[string][]string{
		"nothing": {capabilities.KeySpawn + " local"}, "dial": {egress, capabilities.KeySpawn + " local"},
		"write": {capabilities.KeyWrite + " /home/user/place", capabilities.KeySpawn + " local"},
	} {
		var o observing
		if _, err := h.Handle(t.Context(), o.call("tyrum.local.a", "c", does)); err != nil {
			t.Fatal(err)
		}
		if got := o.all(); !slices.Equal(got, seen) {
			t.Errorf("a command that does %s: %q, want %q", does, got, seen)
		}
	}
}

// The deeds of a server while several calls are open are theirs together, with their names, and
// each of them tells of them (S1-49).
func TestWhatAServerDoesAmongSeveralCalls(t *testing.T) {
	c := newConnecting(t)
	h := hostOf(t, c, tools.Provider{Name: "remote", Kind: tools.KindMCP, Command: []string{"server"}, Net: []string{c.to}})
	approve(t, h, "remote")
	var first, second observing
	over := make(chan error, 1)
	go func() {
		_, err := h.Handle(t.Context(), first.call("tyrum.remote.echo", "one", "wait"))
		over <- err
	}()
	await(t, func() bool { return len(first.all()) > 0 }) // it is under way
	if _, err := h.Handle(t.Context(), second.call("tyrum.remote.echo", "two", "dial")); err != nil {
		t.Fatal(err)
	}
	close(c.hold)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	want := []string{capabilities.KeySpawn + " remote", capabilities.KeyEgress + " " + c.to + " true [one two]"}
	for _, o := range []*observing{&first, &second} {
		if got := o.all(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A request by a connection that an earlier call left is its own call's use.
func TestAnAPIsCallUsesItsHost(t *testing.T) {
	a := startAnswering(t)
	h := hostedAPI(t, a)
	for range 2 {
		var o observing
		inv := o.call("tyrum.things.get", "c", "")
		inv.Args = json.RawMessage(`{"what":"json"}`)
		if _, err := h.Handle(t.Context(), inv); err != nil {
			t.Fatal(err)
		}
		if got, want := o.all(), capabilities.KeyEgress+" "+strings.TrimPrefix(a.URL, "http://"); len(got) != 1 || got[0] != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
