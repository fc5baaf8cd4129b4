package satellites

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/satellite"
)

// hostile is somebody who has a satellite's identity and speaks the protocol by hand.
type hostile struct {
	t       *testing.T
	id, key string
	service string
	pair    nkeys.KeyPair
	conn    *nats.Conn
	denied  chan error
}

// intrude joins as a satellite and connects.
func (h *house) intrude(service string) *hostile {
	t := h.T.(*testing.T)
	t.Helper()
	dir := t.TempDir()
	id, err := satellite.Join(context.Background(), h.invite(service), dir, service, satellite.JoinOptions{})
	must(t, err)
	var kept struct{ Seed string }
	data, err := os.ReadFile(filepath.Join(dir, service+".json"))
	must(t, err)
	must(t, json.Unmarshal(data, &kept))
	if s := fmt.Sprintf("%v %+v %#v", id, id, id); strings.Contains(s, kept.Seed) {
		t.Error("an identity prints its seed")
	}
	x := &hostile{t: t, id: id.Satellite, service: service, denied: make(chan error, 100)}
	x.pair, err = nkeys.FromSeed([]byte(kept.Seed))
	must(t, err)
	x.key, err = x.pair.PublicKey()
	must(t, err)
	x.conn, err = x.connect(h)
	must(t, err)
	t.Cleanup(x.conn.Close)
	return x
}

func (x *hostile) connect(h *house) (*nats.Conn, error) {
	return nats.Connect("tls://"+h.Gateway.Bus.Listening(), nats.Nkey(x.key, x.pair.Sign), nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { x.denied <- err }))
}

func (x *hostile) beat(seq uint64, change func(*remote.Heartbeat), sign nkeys.KeyPair) []byte {
	x.t.Helper()
	b := remote.Heartbeat{
		Contract: 1, Satellite: x.id, Service: x.service, Host: "box", Manifest: "sha256:" + strings.Repeat("0", 64), Ready: true, Connected: true,
		TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: seq,
	}
	if change != nil {
		change(&b)
	}
	data, err := b.Sign(sign.Sign)
	must(x.t, err)
	return data
}

func (x *hostile) publish(subject string, data []byte) {
	x.t.Helper()
	must(x.t, x.conn.Publish(subject, data))
	must(x.t, x.conn.Flush())
}

// refusals waits until so many heartbeats were refused for a reason.
func (h *house) refusals(why string, n uint64) {
	h.T.Helper()
	within(h.T.(*testing.T), why, func() bool { return h.Gateway.Bus.Refused()[why] >= n })
}

// Heartbeats that are forged, replayed, out of order, of another time or service, or of 10,000
// satellites that do not exist change nothing but a count.
func TestHeartbeatsThatDoNotCount(t *testing.T) {
	h := start(t, nil)
	x := h.intrude("voice")
	at := remote.Heartbeats("voice")
	view := func() bus.View {
		v, err := h.Gateway.Bus.View(capabilities.NodeID(x.id))
		must(t, err)
		return v
	}
	first := x.beat(100, nil, x.pair)
	x.publish(at, first)
	within(t, "the first heartbeat", func() bool { return !view().Seen.IsZero() })
	seen := view().Seen
	other, err := nkeys.CreateUser()
	must(t, err)

	x.publish(at, first)                   // again
	x.publish(at, x.beat(99, nil, x.pair)) // out of order
	h.refusals("repeated", 2)
	x.publish(at, x.beat(101, nil, other)) // by another key
	h.refusals("forged", 1)
	tampered := strings.Replace(string(x.beat(102, nil, x.pair)), `"ready":true`, `"ready":false`, 1)
	x.publish(at, []byte(tampered))
	h.refusals("forged", 2)
	x.publish(at, x.beat(103, func(b *remote.Heartbeat) { b.TS = time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339Nano) }, x.pair))
	h.refusals("clock", 1)
	x.publish(at, x.beat(104, func(b *remote.Heartbeat) { b.Service = "image" }, x.pair))
	h.refusals("other_service", 1)
	time.Sleep(1100 * time.Millisecond) // beyond a few each second none of a service is read
	for _, bad := range []string{`{`, `[]`, `{"contract_version":1,"privileged":true}`, strings.Repeat("a", remote.MaxHeartbeat+1)} {
		x.publish(at, []byte(bad))
	}
	h.refusals("malformed", 4)
	for i := range 10_000 {
		must(t, x.conn.Publish(at, x.fake(i)))
	}
	must(t, x.conn.Flush())
	within(t, "all of them to be refused", func() bool {
		r := h.Gateway.Bus.Refused()
		return r["unknown"]+r["too_many"] >= 10_000
	})
	if v := view(); !v.Seen.Equal(seen) || len(h.Gateway.Bus.Views()) != 1 {
		t.Errorf("they counted: %+v, %d satellites", v, len(h.Gateway.Bus.Views()))
	}
	time.Sleep(1100 * time.Millisecond)
	x.publish(at, x.beat(105, nil, x.pair))
	within(t, "a good one after them", func() bool { return view().Seen.After(seen) })
}

// fake is a heartbeat of a satellite that there is not; it costs no signature to refuse.
func (x *hostile) fake(i int) []byte {
	return fmt.Appendf(nil, `{"contract_version":1,"satellite_id":"t%016d","service":"voice","host":"x","subjects":[],"manifest_set_hash":"sha256:%064d","ready":true,"active":0,"load":0,"connected":true,"uptime_s":1,"ts":"2026-11-26T22:00:00Z","seq":1,"sig":"AA"}`, i, i)
}

// A satellite hears and says its own subjects only: not requests to others, not the plane, not
// replies of others, nor joins.
func TestASatelliteSpeaksForItselfOnly(t *testing.T) {
	h := start(t, nil)
	e := &echo{}
	run(t, satellite.Options{Name: "image", Dir: t.TempDir(), Paste: h.invite("image"), Tools: []satellite.Tool{e.tool()}})
	p := h.approve("image")
	h.callable("tool.image.say")
	x := h.intrude("voice")
	for _, subject := range []string{tools.AllTools, ">", remote.Own("image", string(p.Host)), remote.AllInboxes, remote.AllJoins, remote.Inbox(string(p.Host)) + ".>", remote.Heartbeats("image")} {
		sub, err := x.conn.SubscribeSync(subject)
		must(t, err)
		must(t, x.conn.Flush())
		select {
		case err := <-x.denied:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s may be heard", subject)
		}
		_ = sub.Unsubscribe()
	}
	order, err := remote.Write(remote.Request{Op: remote.OpCall, Call: "c1", Tool: "say", Args: json.RawMessage(`{"text":"stolen"}`), DeadlineMS: 1000})
	must(t, err)
	for _, subject := range []string{remote.Own("image", string(p.Host)), remote.Heartbeats("image"), remote.Inbox(string(p.Host)) + ".x", "handrail.join.x"} {
		x.publish(subject, order)
		select {
		case err := <-x.denied:
			if !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s: %v", subject, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s may be said", subject)
		}
	}
	want(t, h.call("tool.image.say", `{"text":"mine"}`, ""), capabilities.StatusOK, "")
	if e.times("stolen") != 0 {
		t.Error("a satellite had another one work")
	}
	// Without a key that is known there is no way in at all.
	stranger, err := nkeys.CreateUser()
	must(t, err)
	key, err := stranger.PublicKey()
	must(t, err)
	if _, err := (&hostile{key: key, pair: stranger}).connect(h); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := nats.Connect("nats://"+h.Gateway.Bus.Listening(), nats.NoReconnect()); err == nil {
		t.Error("somebody without a key is in")
	}
}

// A manifest that is too large, has fields about security that nobody knows, is of another service,
// or is not what the heartbeat says makes no provider.
func TestManifestsThatAreNotTaken(t *testing.T) {
	h := start(t, nil)
	many := &tools.ToolManifest{Provider: "voice"}
	for i := range 300 {
		many.Tools = append(many.Tools, tools.RemoteTool{Name: fmt.Sprint("t", i)})
	}
	good := &tools.ToolManifest{Provider: "voice", Tools: []tools.RemoteTool{{Name: "a"}}}
	marshal := func(m *tools.ToolManifest) string {
		data, err := remote.Write(remote.Reply{Manifest: m})
		must(t, err)
		return string(data)
	}
	for name, c := range map[string]struct{ hash, reply string }{
		"many":     {many.Hash(), marshal(many)},
		"unknown":  {good.Hash(), strings.Replace(marshal(good), `"name":"a"`, `"name":"a","requires_approval":false`, 1)},
		"other":    {(&tools.ToolManifest{Provider: "image", Tools: good.Tools}).Hash(), strings.Replace(marshal(good), "voice", "image", 1)},
		"not said": {"sha256:" + strings.Repeat("1", 64), marshal(good)},
		"no json":  {good.Hash(), "{"},
	} {
		x := h.intrude("voice")
		_, err := x.conn.Subscribe(remote.Own("voice", x.id), func(m *nats.Msg) { _ = m.Respond([]byte(c.reply)) })
		must(t, err)
		x.publish(remote.Heartbeats("voice"), x.beat(1, func(b *remote.Heartbeat) { b.Manifest = c.hash }, x.pair))
		within(t, name, func() bool {
			v, err := h.Gateway.Bus.View(capabilities.NodeID(x.id))
			return err == nil && v.Problem != ""
		})
		if _, err := h.Gateway.Providers.Get("voice"); err == nil {
			t.Errorf("%s: there is a provider", name)
		}
		_, err = h.Gateway.Bus.Decide(context.Background(), "root", capabilities.NodeID(x.id), route.StateRevoked, "")
		must(t, err)
	}
	x := h.intrude("voice")
	if err := x.conn.Publish(remote.Heartbeats("voice"), make([]byte, remote.MaxPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a payload beyond the bound: %v", err)
	}
}

// A satellite that is revoked loses its connection at once, its tools with it, and does not come
// in again; nor does anybody by a paste that was used.
func TestARevokedSatelliteStaysOut(t *testing.T) {
	h := start(t, nil)
	e, dir := &echo{}, t.TempDir()
	paste := h.invite("voice")
	r := run(t, satellite.Options{Name: "voice", Dir: dir, Paste: paste, Tools: []satellite.Tool{e.tool()}})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	if _, err := satellite.Join(context.Background(), paste, t.TempDir(), "voice", satellite.JoinOptions{}); capabilities.CodeOf(err) != capabilities.CodePasteUsed {
		t.Errorf("the code a second time: %v", err)
	}
	token := h.MustToken("root", principal.RoleAdmin)
	ask := func(method, path, body string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(context.Background(), method, h.URL()+path, strings.NewReader(body))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		must(t, json.NewDecoder(resp.Body).Decode(into))
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d %+v", method, path, resp.StatusCode, into)
		}
	}
	var put api.Satellite
	ask(http.MethodPost, "/v1/satellites/"+string(p.Host)+"/revoke", `{"reason":"lost"}`, &put)
	after := h.call("tool.voice.say", `{"text":"after"}`, "")
	if after.Status == capabilities.StatusOK || e.times("after") != 0 {
		t.Errorf("a revoked satellite works: %+v", after)
	}
	// It is no node, and nothing says so.
	if !strings.Contains(after.Message, "no satellite") || after.Action.Key != capabilities.ActionListSatellites {
		t.Errorf("%+v", after)
	}
	var shown api.Provider
	ask(http.MethodGet, "/v1/providers/voice", "", &shown)
	if shown.Ready || shown.Reason != route.ReasonSatelliteRevoked || !strings.Contains(shown.Fix, "handrail satellite list") || shown.Tools[0].Callable {
		t.Errorf("%+v", shown)
	}
	<-r.done
	if !errors.Is(r.err, satellite.ErrNotAdmitted) {
		t.Errorf("it ended with %v", r.err)
	}
	if err := satellite.Run(context.Background(), satellite.Options{Name: "voice", Dir: dir, Tools: []satellite.Tool{e.tool()}}); !errors.Is(err, satellite.ErrNotAdmitted) {
		t.Errorf("it comes again: %v", err)
	}
	if _, err := h.Gateway.Bus.Decide(context.Background(), "root", p.Host, route.StateApproved, ""); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("revoked is for good: %v", err)
	}
}
