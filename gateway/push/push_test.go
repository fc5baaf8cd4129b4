package push

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/push/pushtest"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const within = 45 * time.Second

// waiting is what waits, as a test says.
type waiting struct {
	mu      sync.Mutex
	list    []consent.Approval
	changed chan struct{}
}

func (w *waiting) set(list ...consent.Approval) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = list
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *waiting) Approvals() []consent.Approval { w.mu.Lock(); defer w.mu.Unlock(); return w.list }
func (w *waiting) Changed() <-chan struct{}      { w.mu.Lock(); defer w.mu.Unlock(); return w.changed }

// ledgerOf is a ledger that a test writes.
type ledgerOf struct {
	mu      sync.Mutex
	packets []ledger.Packet
	changed chan struct{}
}

func (l *ledgerOf) add(kind ledger.Kind, call capabilities.CallID, body string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packets = append(l.packets, ledger.Packet{Seq: uint64(len(l.packets) + 1), Kind: kind, Call: call, Tool: "tool.fs.bash", Body: json.RawMessage(body)})
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledgerOf) Changed() <-chan struct{} { l.mu.Lock(); defer l.mu.Unlock(); return l.changed }

func (l *ledgerOf) Tip() (uint64, chain.Hash) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return uint64(len(l.packets)), chain.Hash{}
}

func (l *ledgerOf) Packets(_ context.Context, q ledger.Query) (out []ledger.Packet, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.packets {
		if p.Seq > q.After && strings.HasPrefix(string(p.Kind), string(q.Kind)) {
			out = append(out, p)
		}
	}
	return out, nil
}

// house is a book with real tokens and a real store.
type house struct {
	t       *testing.T
	dir     string
	service *pushtest.Service
	store   *store.Store
	tokens  *principal.Tokens
	waiting *waiting
	ledger  *ledgerOf
	book    *Book
	end     func()

	mu      sync.Mutex
	kinds   []string
	log     strings.Builder
	session principal.Identity
}

func (h *house) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

func (h *house) said() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.kinds, " ") + "\n" + h.log.String()
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), service: pushtest.NewService(t), waiting: &waiting{changed: make(chan struct{})}, ledger: &ledgerOf{changed: make(chan struct{})}}
	h.open()
	t.Cleanup(func() { h.end() })
	code, _, err := h.tokens.Login(h.person("ann"), "")
	must(t, err)
	h.session = h.signIn(code)
	return h
}

func (h *house) person(name string) principal.Identity {
	h.t.Helper()
	_, token, err := h.tokens.Create(context.Background(), principal.Site, principal.Spec{Principal: capabilities.PrincipalID(name), Role: principal.RoleOperator})
	must(h.t, err)
	who, err := h.tokens.Authenticate(token.Reveal())
	must(h.t, err)
	return who
}

func (h *house) signIn(code principal.Secret) principal.Identity {
	h.t.Helper()
	_, cookie, err := h.tokens.Redeem(context.Background(), code.Reveal())
	must(h.t, err)
	who, err := h.tokens.Session(cookie.Reveal())
	must(h.t, err)
	return who
}

// open opens the store, as after a start.
func (h *house) open() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	h.store, err = store.Open(ctx, store.Options{Path: filepath.Join(h.dir, "store.db"), Migrations: append(principal.Migrations(), Migrations()...)})
	must(h.t, err)
	var all sync.WaitGroup
	all.Go(func() { _ = h.store.Run(ctx) })
	h.tokens, err = principal.New(principal.Options{Store: h.store})
	must(h.t, err)
	must(h.t, h.tokens.Load(ctx))
	key, err := LoadKey(filepath.Join(h.dir, "push.key"), func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) })
	must(h.t, err)
	h.book, err = New(Options{
		Store: h.store, Tokens: h.tokens, Waiting: h.waiting, Ledger: h.ledger, Key: key, Services: []string{h.service.Host()}, Transport: h.service.Client().Transport, Backoff: time.Millisecond,
		Record: func(_ *store.Tx, kind string, _ capabilities.PrincipalID, body any) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.kinds = append(h.kinds, fmt.Sprintf("%s%v", kind, body))
			return nil
		},
		Log: slog.New(slog.NewTextHandler(h, nil)),
	})
	must(h.t, err)
	must(h.t, h.book.Load(ctx))
	all.Go(func() { _ = h.book.Run(ctx) })
	h.end = func() { cancel(); all.Wait(); _ = h.store.Close() }
}

func (h *house) subscribe(by principal.Identity, o pushtest.Browser, path string) (Subscription, error) {
	return h.book.Subscribe(context.Background(), by, Wish{Name: "phone", Endpoint: h.service.URL + path, P256dh: o.P256dh(), Auth: o.Auth()})
}

func (h *house) mustSubscribe(by principal.Identity, o pushtest.Browser, path string) Subscription {
	h.t.Helper()
	s, err := h.subscribe(by, o, path)
	must(h.t, err)
	if m, _ := h.next(o); m.Approval != "" {
		h.t.Errorf("the first message: %+v", m)
	}
	return s
}

// next is the next message.
func (h *house) next(o pushtest.Browser) (Message, http.Header) {
	h.t.Helper()
	text, head := h.service.Next(o)
	var m Message
	must(h.t, json.Unmarshal(text, &m))
	return m, head
}

// stored is how many subscriptions the store holds.
func (h *house) stored() (n int) {
	h.t.Helper()
	must(h.t, h.store.Read().QueryRow(`SELECT count(*) FROM push_subscription`).Scan(&n))
	return n
}

func (h *house) awaitStored(n int) {
	h.t.Helper()
	for end := time.Now().Add(within); h.stored() != n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("the store holds %d subscriptions, want %d\n%s", h.stored(), n, h.said())
		}
	}
}

func question(id string) consent.Approval {
	return consent.Approval{ID: id, Principal: "robot", Tool: "tool.desktop.act", NodeLabel: "study\u202e", Risk: "high", Arguments: map[string]any{"text": "my-pin-1234"}, Expires: time.Now().Add(10 * time.Minute)}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A browser is told of violations and critical drift, once for each call unless more follows, with
// nothing of the evidence; harmless drift and pages' it does not hear of.
func TestABrowserHearsOfDrift(t *testing.T) {
	h, o := newHouse(t), pushtest.NewBrowser(t)
	h.mustSubscribe(h.session, o, "/to/a-secret-address")
	h.ledger.add(ledger.KindDrift, "c1", `{"drift_id":"drift_0","severity":"warning","key":"data.read.screen","response":"recorded"}`)
	h.ledger.add(ledger.KindDriftSurfaced, "", `{}`)
	h.ledger.add(ledger.KindDrift, "c1", `{"drift_id":"drift_1","severity":"violation","key":"data.write.workspace","response":"recorded","evidence":"pin-1234"}`)
	h.ledger.add(ledger.KindDrift, "c2", `{"drift_id":"drift_2","severity":"violation","key":"network.egress.https","response":"quarantined"}`)
	h.ledger.add(ledger.KindDrift, "c3", `{"drift_id":"drift_3","severity":"critical","key":"privileged.secret.read","response":"restricted"}`)
	h.ledger.add(ledger.KindDrift, "c3", `{"drift_id":"drift_4","severity":"violation","key":"network.egress.https","response":"recorded"}`)
	h.waiting.set(question("a-1"))
	told := map[string]string{}
	for range 4 { // workers send side by side
		m, _ := h.next(o)
		told[m.Drift+m.Approval] = m.Title + "|" + m.Body
	}
	for id, want := range map[string]string{
		"drift_1": "Drift: violation|tool.fs.bash did data.write.workspace without a grant.",
		"drift_2": "Drift: violation|tool.fs.bash did network.egress.https without a grant. Its runner takes no calls until you lift that.",
		"drift_3": "Drift: critical|tool.fs.bash did privileged.secret.read without a grant. It is not called until you have reviewed it.",
	} {
		if told[id] != want {
			t.Errorf("%s: %q, want %q", id, told[id], want)
		}
	}
	if told["a-1"] == "" {
		t.Errorf("%q", told)
	}
}

// A browser is told who wants what where, once for each question, across a restart, and
// nothing of the arguments; what the push service sees is for that browser alone.
func TestABrowserIsTold(t *testing.T) {
	h, o := newHouse(t), pushtest.NewBrowser(t)
	s := h.mustSubscribe(h.session, o, "/to/a-secret-address")
	if list := h.book.List("ann"); len(list) != 1 || list[0] != s || s.Service != h.service.Host() {
		t.Errorf("%+v", list)
	}
	h.waiting.set(question("a-1"))
	m, head := h.next(o)
	if m.Approval != "a-1" || m.Title != "robot waits for you" || !strings.Contains(m.Body, "tool.desktop.act on study") || !strings.Contains(m.Body, "High risk") || strings.ContainsRune(m.Body, '\u202e') {
		t.Errorf("%+v", m)
	}
	if strings.Contains(fmt.Sprint(m), "1234") {
		t.Errorf("the notice tells arguments: %+v", m)
	}
	if head.Get("Urgency") != "high" || head.Get("Content-Encoding") != "aes128gcm" || len(head.Get("Topic")) != 32 || len(head.Get("TTL")) != 3 {
		t.Errorf("%v", head)
	}
	h.waiting.set(question("a-1"), question("a-2")) // the first is not told again
	if m, _ := h.next(o); m.Approval != "a-2" {
		t.Errorf("%+v", m)
	}
	h.end()
	h.open()
	if h.book.Key() == "" || len(h.book.List("ann")) != 1 {
		t.Error("it is forgotten after a restart")
	}
	h.waiting.set(question("a-3"))
	for seen := map[string]bool{}; !seen["a-3"]; {
		m, _ := h.next(o)
		seen[m.Approval] = true
	}
	if said := h.said(); strings.Contains(said, "a-secret-address") || strings.Contains(said, o.Auth()) {
		t.Errorf("the address is told: %s", said)
	}
	if _, err := h.tokens.Revoke(context.Background(), principal.Site, h.session.TokenID); err != nil {
		t.Fatal(err)
	}
	h.awaitStored(0)
}

// A push service that fails is tried again, one that says that nobody is there ends the
// subscription, and where it sends elsewhere nobody goes.
func TestWhatAPushServiceAnswers(t *testing.T) {
	h, o := newHouse(t), pushtest.NewBrowser(t)
	s := h.mustSubscribe(h.session, o, "/x")
	h.service.Answer(func(n int, _ string) int { return []int{0, 500, 429, 201}[min(n, 3)] })
	h.waiting.set(question("a-1"))
	if m, _ := h.next(o); m.Approval != "a-1" {
		t.Errorf("%+v", m)
	}
	h.service.Answer(func(int, string) int { return http.StatusGone })
	h.waiting.set(question("a-2"))
	h.awaitStored(0)
	if len(h.book.List("ann")) != 0 || !strings.Contains(h.said(), "gateway.push.unsubscribed") {
		t.Errorf("%+v\n%s", h.book.List("ann"), h.said())
	}
	for status, code := range map[int]capabilities.Code{http.StatusFound: capabilities.CodePushUnavailable, http.StatusForbidden: capabilities.CodePushUnavailable, http.StatusNotFound: capabilities.CodeInvalidRequest} {
		h.service.Answer(func(_ int, path string) int {
			if path != "/x" {
				t.Errorf("somebody went to %s", path)
			}
			return status
		})
		if _, err := h.subscribe(h.session, o, "/x"); capabilities.CodeOf(err) != code {
			t.Errorf("after %d: %v", status, err)
		}
	}
	if h.stored() != 0 {
		t.Error("what did not take a first message was kept")
	}
	if err := h.book.Unsubscribe(context.Background(), h.session, s.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
}

// Somebody's subscription ends with them, is nobody else's to end, and there are only so
// many.
func TestWhoseSubscriptions(t *testing.T) {
	h, o := newHouse(t), pushtest.NewBrowser(t)
	first := h.mustSubscribe(h.session, o, "/1")
	ben := h.person("ben")
	if err := h.book.Unsubscribe(context.Background(), ben, first.ID); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error(err)
	}
	_, secret, err := h.tokens.Create(context.Background(), principal.Site, principal.Spec{Principal: "robot", Role: principal.RoleAgent})
	must(t, err)
	agent, err := h.tokens.Authenticate(secret.Reveal())
	must(t, err)
	if _, err := h.subscribe(agent, o, "/2"); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("an agent: %v", err)
	}
	for i := range maxEach {
		_, err := h.subscribe(ben, o, fmt.Sprintf("/ben/%d", i))
		must(t, err)
	}
	if _, err := h.subscribe(ben, o, "/ben/more"); capabilities.CodeOf(err) != capabilities.CodeOverloaded {
		t.Error(err)
	}
	_, err = h.subscribe(ben, o, "/ben/0") // again, which is no more
	must(t, err)
	must(t, h.book.Unsubscribe(context.Background(), h.session, first.ID))
	if _, err := h.tokens.Revoke(context.Background(), principal.Site, ben.TokenID); err != nil {
		t.Fatal(err)
	}
	h.awaitStored(0)
	before := h.service.Left()
	h.waiting.set(question("a-1"))
	h.end() // everything has ended: nobody was told
	h.end = func() {}
	if n := h.service.Left() - before; n != 0 {
		t.Errorf("%d messages went out to nobody", n)
	}
}
