package satellites

import (
	"context"
	"crypto/tls"
	"encoding/base64"
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

// says is a heartbeat, in the gateway's time.
func (x *hostile) says(seq uint64) remote.Heartbeat {
	return remote.Heartbeat{
		Contract: 1, Satellite: x.id, Service: x.service, Host: "box", Manifest: "sha256:" + strings.Repeat("0", 64), Ready: true, Connected: true,
		TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: seq,
	}
}

func (x *hostile) beat(seq uint64, change func(*remote.Heartbeat), sign nkeys.KeyPair) []byte {
	x.t.Helper()
	b := x.says(seq)
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

// Heartbeats that are forged, replayed, out of order, of another time, service or satellite change
// nothing but a count, nor does a flood of them.
func TestHeartbeatsThatDoNotCount(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	x := h.intrude("voice")
	at := remote.Heartbeats("voice", x.id)
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

	tampered := strings.Replace(string(x.beat(102, nil, x.pair)), `"ready":true`, `"ready":false`, 1)
	for _, bad := range []struct {
		why  string
		data []byte
	}{
		{"repeated", first},
		{"repeated", x.beat(99, nil, x.pair)}, // out of order
		{"forged", x.beat(101, nil, other)},   // by another key
		{"forged", []byte(tampered)},
		{"unkeyed", x.sealed(103, &remote.Key{1})},
		{"clock", x.beat(104, func(b *remote.Heartbeat) { b.TS = time.Now().Add(-2 * time.Minute).UTC().Format(time.RFC3339Nano) }, x.pair)},
		{"other", x.beat(105, func(b *remote.Heartbeat) { b.Service = "image" }, x.pair)},
		{"other", x.beat(106, func(b *remote.Heartbeat) { b.Satellite = "t7k2m9qxw3dz8tch5" }, x.pair)},
		{"malformed", []byte(`{`)},
		{"malformed", []byte(`[]`)},
		{"malformed", []byte(`{"contract_version":1,"privileged":true}`)},
		{"malformed", []byte(strings.Repeat("a", remote.MaxHeartbeat+1))},
		{"malformed", []byte(strings.Replace(string(x.beat(107, nil, x.pair)), "{", `{"approved":true,`, 1))},
	} {
		h.late.Add(int64(time.Second)) // a heartbeat each second is read
		n := h.Gateway.Bus.Refused()[bad.why]
		x.publish(at, bad.data)
		h.refusals(bad.why, n+1)
	}
	for range 10_000 {
		must(t, x.conn.Publish(at, first))
	}
	must(t, x.conn.Flush())
	h.refusals("too_many", 9_000)
	if v := view(); !v.Seen.Equal(seen) || len(h.Gateway.Bus.Views()) != 1 {
		t.Errorf("they counted: %+v, %d satellites", v, len(h.Gateway.Bus.Views()))
	}
	h.late.Add(int64(5 * time.Second))
	// Some of the many may be read only now, each in the place of a good one.
	for n := 108; !view().Seen.After(seen); n++ {
		if n == 138 {
			t.Fatal("no good one counts after them")
		}
		h.late.Add(int64(time.Second))
		x.publish(at, x.beat(uint64(n), nil, x.pair))
		time.Sleep(200 * time.Millisecond)
	}
}

// sealed is a heartbeat with a MAC.
func (x *hostile) sealed(seq uint64, key *remote.Key) []byte {
	x.t.Helper()
	b := x.says(seq)
	data, err := b.Sign(key.MAC)
	must(x.t, err)
	return data
}

// A satellite hears and says its own subjects only: not requests to others, not the plane, not
// replies of others, nor joins.
func TestASatelliteSpeaksForItselfOnly(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e := &echo{}
	run(t, satellite.Options{Name: "image", Dir: t.TempDir(), Paste: h.invite("image"), Tools: []satellite.Tool{e.tool()}})
	p := h.approve("image")
	h.callable("tool.image.say")
	x := h.intrude("voice")
	for _, subject := range []string{tools.AllTools, ">", remote.Own("image", string(p.Host)), remote.AllInboxes, remote.AllJoins, remote.Inbox(string(p.Host)) + ".>", remote.Heartbeats("image", string(p.Host)), remote.Heartbeats("voice", x.id)} {
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
	for _, subject := range []string{remote.Own("image", string(p.Host)), remote.Heartbeats("image", string(p.Host)), remote.Heartbeats("voice", "t7k2m9qxw3dz8tch5"), remote.Inbox(string(p.Host)) + ".x", "handrail.join.x"} {
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
	t.Parallel()
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
	for name, c := range map[string]struct{ hash, reply, why string }{
		"many":     {many.Hash(), marshal(many), "1 to 200 tools"},
		"unknown":  {good.Hash(), strings.Replace(marshal(good), `"name":"a"`, `"name":"a","requires_approval":false`, 1), "requires_approval"},
		"other":    {(&tools.ToolManifest{Provider: "image", Tools: good.Tools}).Hash(), strings.Replace(marshal(good), "voice", "image", 1), "not of voice"},
		"not said": {"sha256:" + strings.Repeat("1", 64), marshal(good), "not the one that its heartbeat names"},
		"no json":  {good.Hash(), "{", ""},
	} {
		x := h.intrude("voice")
		_, err := x.conn.Subscribe(remote.Own("voice", x.id), func(m *nats.Msg) { _ = m.Respond([]byte(c.reply)) })
		must(t, err)
		x.publish(remote.Heartbeats("voice", x.id), x.beat(1, func(b *remote.Heartbeat) { b.Manifest = c.hash }, x.pair))
		within(t, name, func() bool {
			v, err := h.Gateway.Bus.View(capabilities.NodeID(x.id))
			return err == nil && v.Problem != "" && strings.Contains(v.Problem, c.why)
		})
		if _, err := h.Gateway.Providers.Get("voice"); err == nil {
			t.Errorf("%s: there is a provider", name)
		}
		_, err = h.Gateway.Bus.Decide(context.Background(), "root", capabilities.NodeID(x.id), route.StateRevoked, "")
		must(t, err)
	}
	x := h.intrude("voice")
	if err := x.conn.Publish(remote.Heartbeats("voice", x.id), make([]byte, remote.MaxPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a payload beyond the bound: %v", err)
	}
}

// A key is one satellite's: nobody joins by it a second time, nor by one that is another's. Of two
// that connect by it the later has the place of the other.
func TestAKeyIsOneSatellites(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	x := h.intrude("voice")
	paste, err := remote.ParsePaste(h.invite("image"))
	must(t, err)
	holder, err := nkeys.FromSeed([]byte(paste.Seed))
	must(t, err)
	holds, err := holder.PublicKey()
	must(t, err)
	conn, err := nats.Connect("tls://"+h.Gateway.Bus.Listening(), nats.Nkey(holds, holder.Sign), nats.Secure(&tls.Config{InsecureSkipVerify: true}),
		nats.NoReconnect(), nats.CustomInboxPrefix(remote.Inbox(holds)))
	must(t, err)
	t.Cleanup(conn.Close)
	for name, c := range map[string]struct {
		signs nkeys.KeyPair
		over  string
		code  capabilities.Code
	}{
		"the same key again":   {x.pair, holds, capabilities.CodeConflict},
		"a key of another":     {holder, holds, capabilities.CodePasteInvalid},
		"a proof of something": {x.pair, x.key, capabilities.CodePasteInvalid},
	} {
		sig, err := c.signs.Sign([]byte(c.over))
		must(t, err)
		ask, err := remote.Write(remote.Ask{Key: x.key, Host: "box", Platform: "linux/amd64", Sig: base64.RawURLEncoding.EncodeToString(sig)})
		must(t, err)
		m, err := conn.Request(remote.Join(holds), ask, 10*time.Second)
		must(t, err)
		var v remote.Verdict
		must(t, json.Unmarshal(m.Data, &v))
		if v.Code != c.code || v.Satellite != "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
	second, err := x.connect(h)
	must(t, err)
	defer second.Close()
	within(t, "the first one to be cut off", x.conn.IsClosed)
	if second.IsClosed() || len(h.Gateway.Bus.Views()) != 1 {
		t.Errorf("the second is closed: %v; %d satellites", second.IsClosed(), len(h.Gateway.Bus.Views()))
	}
}

// A satellite that is revoked loses its connection at once, its tools with it, and does not come
// in again; nor does anybody by a paste that was used.
func TestARevokedSatelliteStaysOut(t *testing.T) {
	t.Parallel()
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
