package satellites

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/satellite"
)

// remoteWorker is a worker on another machine that was let in.
type remoteWorker struct {
	id  string
	key ed25519.PrivateKey
}

// letIn has a worker join and get its token, which nobody keeps here.
func (h *house) letIn(name string) remoteWorker {
	h.T.Helper()
	i, err := h.Gateway.Workers.Invite(context.Background(), h.Gateway.Tokens.Is("root", principal.RoleAdmin), api.InviteWorker{Name: name, AutoApprove: true})
	must(h.T, err)
	p, err := pairing.ParseWorkerPaste(i.Paste)
	must(h.T, err)
	_, key, err := ed25519.GenerateKey(nil)
	must(h.T, err)
	ask := pairing.WorkerAsk{
		Invite: pairing.KeyText(p.Key.Public().(ed25519.PublicKey)), Key: pairing.KeyText(key.Public().(ed25519.PublicKey)), Host: "box", Seq: 1,
	}
	in := api.JoinWorker{Invite: ask.Invite, Key: ask.Key, Host: ask.Host, Seq: ask.Seq}
	in.Sig, err = ask.Sign(key)
	must(h.T, err)
	in.Proof, err = ask.Sign(p.Key)
	must(h.T, err)
	v, err := h.Gateway.Workers.Join(context.Background(), in)
	must(h.T, err)
	if v.Token == "" {
		h.T.Fatalf("%+v", v)
	}
	return remoteWorker{v.Worker, key}
}

// elseways counts what is asked over HTTP, and lets none of it through.
type elseways struct{ asked atomic.Int64 }

var errElseways = errors.New("asked over HTTP")

func (e *elseways) RoundTrip(*http.Request) (*http.Response, error) {
	e.asked.Add(1)
	return nil, errElseways
}

// asker connects a worker to the bus; its client has no token, and no way but the bus.
func (h *house) asker(w remoteWorker, o satellite.AskerOptions) (*client.Client, *satellite.Asker, *elseways) {
	h.T.Helper()
	rest := &elseways{}
	o.Worker, o.Key, o.Rest = w.id, w.key, rest
	var ok bool
	o.Addrs, o.Sum, ok = h.Gateway.Bus.Way()
	if !ok {
		h.T.Fatal("no bus runs")
	}
	a, err := satellite.NewAsker(o)
	must(h.T, err)
	h.T.Cleanup(a.Close)
	c, err := client.New("127.0.0.1:1", client.Token{})
	must(h.T, err)
	c.Through(func(http.RoundTripper) http.RoundTripper { return a })
	return c, a, rest
}

// asksAll has a worker ask each domain of plumbing over the bus.
func (h *house) asksAll(c *client.Client) {
	t := h.T
	t.Helper()
	ctx := context.Background()
	if _, err := c.Tools(ctx, ""); err != nil {
		t.Errorf("cli: %v", err)
	}
	r, err := c.Call(ctx, client.Call{Tool: "tool.voice.say", Args: json.RawMessage(`{"text":"over the bus"}`)})
	must(t, err)
	if r.Status != capabilities.StatusOK {
		t.Errorf("the call ended with %+v", r)
	}
	if all := h.packets(r.Call); len(all) < 3 || all[0].Principal != "box" {
		t.Errorf("its packets are %+v", all)
	}
	job, err := c.PutJob(ctx, api.NewJob{Text: "a task", Lane: "box"})
	must(t, err)
	if one, err := c.TakeJob(ctx, api.TakeJob{Worker: "hand"}); err != nil || one.ID != job.ID || one.Principal != "box" {
		t.Errorf("jobs: %+v %v", one, err)
	}
	if err := c.Do(ctx, http.MethodGet, "/v1/turns", nil, nil); err != nil {
		t.Errorf("turns: %v", err)
	}
	// The same policy: a token of role agent does not read the ledger.
	if _, err := c.Packets(ctx, client.PacketQuery{}); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("audit: %v", err)
	}
}

// A worker on another machine asks jobs, turns, audit and cli over the bus, by the key of its
// connection: no message names or proves anybody. The gateway judges and records its calls as those
// that come over HTTPS (S3-16, S3-23, S3-25). Nobody else may ask, a satellite either, and a worker
// that is put out is cut off.
func TestAWorkerAsksOverTheBus(t *testing.T) {
	t.Parallel()
	h := start(t, nil)
	e := &echo{}
	run(t, satellite.Options{Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Tools: []satellite.Tool{e.plain()}})
	h.approve("voice")
	h.callable("tool.voice.say")
	w := h.letIn("box")
	c, _, rest := h.asker(w, satellite.AskerOptions{})
	h.asksAll(c)
	if n := rest.asked.Load(); n > 0 {
		t.Errorf("%d requests went over HTTP", n)
	}
	// A large answer comes whole, and what belongs to no domain goes the other way.
	big := strings.Repeat("x", 60_000)
	for range 10 {
		_, err := c.PutJob(t.Context(), api.NewJob{Text: big, Lane: "box"})
		must(t, err)
	}
	if all, err := c.Jobs(t.Context(), 20); err != nil || len(all) != 11 {
		t.Errorf("%d jobs, %v", len(all), err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/v1/tokens", nil, nil); !errors.Is(err, errElseways) || rest.asked.Load() != 1 {
		t.Errorf("what is no worker's: %v", err)
	}
	if err := c.Do(t.Context(), http.MethodGet, "/v1/calls/x/events", nil, nil); err == nil {
		t.Error("an address that is none answers")
	}
	h.mayNotAsk(w)

	// One that gives up is not waited for, and one that is put out is cut off.
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := c.TakeJob(ctx, api.TakeJob{Worker: "other", Wait: 60})
		waits <- err
	}()
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("it waits on: %v", err)
	}
	admin, err := client.New(h.URL(), client.NewToken(h.MustToken("root", principal.RoleAdmin)))
	must(t, err)
	must(t, admin.Do(t.Context(), http.MethodPost, client.Path("workers", w.id, "revoke"), api.Reason{}, nil))
	within(t, "the worker to be cut off", func() bool {
		_, err := c.Jobs(t.Context(), 1)
		return errors.Is(err, errElseways) || capabilities.CodeOf(err) == capabilities.CodeUnauthenticated
	})
	addrs, sum, _ := h.Gateway.Bus.Way()
	if _, err := satellite.NewAsker(satellite.AskerOptions{Worker: w.id, Key: w.key, Addrs: addrs, Sum: sum, Rest: rest}); !errors.Is(err, satellite.ErrNotAdmitted) {
		t.Errorf("it came in again: %v", err)
	}
}

// mayNotAsk has a satellite, and another worker, say what only w may.
func (h *house) mayNotAsk(w remoteWorker) {
	t := h.T.(*testing.T)
	t.Helper()
	x := h.intrude("image")
	asks := func(reply string) *nats.Msg {
		m := &nats.Msg{Subject: remote.Asks("jobs", w.id), Reply: reply, Header: nats.Header{}}
		m.Header.Set(remote.HeaderMethod, http.MethodPost)
		m.Header.Set(remote.HeaderPath, "/v1/jobs")
		m.Data = []byte(`{"text":"of a stranger","lane":"box"}`)
		return m
	}
	must(t, x.conn.PublishMsg(asks(remote.Inbox(x.id)+".1")))
	must(t, x.conn.Flush())
	select {
	case err := <-x.denied:
		if !strings.Contains(err.Error(), "Permissions Violation") {
			t.Errorf("a satellite was told %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("a satellite may ask as a worker")
	}
	// A worker that has its answer sent to somebody else, or asks as another: nothing of it is done.
	other := h.letIn("barge")
	pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, other.key.Seed())
	must(t, err)
	key, err := pair.PublicKey()
	must(t, err)
	conn, err := nats.Connect("tls://"+h.Gateway.Bus.Listening(), nats.Nkey(key, pair.Sign), nats.Secure(&tls.Config{InsecureSkipVerify: true}), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	must(t, err)
	defer conn.Close()
	heard, err := conn.SubscribeSync(remote.Inbox(other.id) + ".>")
	must(t, err)
	must(t, conn.PublishMsg(asks(remote.Inbox(other.id)+".1")))
	for _, reply := range []string{"", remote.Inbox(w.id) + ".1", remote.Inbox(other.id) + ".*", "handrail.join.x"} {
		m := asks(reply)
		m.Subject = remote.Asks("jobs", other.id)
		must(t, conn.PublishMsg(m))
	}
	last := asks(remote.Inbox(other.id) + ".2")
	last.Subject = remote.Asks("jobs", other.id)
	last.Header.Set(remote.HeaderMethod, http.MethodGet)
	must(t, conn.PublishMsg(last))
	m, err := heard.NextMsg(time.Minute)
	must(t, err)
	if m.Subject != remote.Inbox(other.id)+".2" || m.Header.Get(remote.HeaderStatus) != "200" || strings.Contains(string(m.Data), "stranger") {
		t.Errorf("%s was answered with %v %s", m.Subject, m.Header, m.Data)
	}
}
