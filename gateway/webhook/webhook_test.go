package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/webhook"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))

// book is a ledger that a test writes.
type book struct {
	mu      sync.Mutex
	packets []ledger.Packet
	changed chan struct{}
}

func (b *book) add(kind ledger.Kind, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.packets = append(b.packets, ledger.Packet{Seq: uint64(len(b.packets) + 1), Kind: kind, Principal: "agent", Tool: "tool.a.x", Body: json.RawMessage(body)})
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *book) Changed() <-chan struct{} { b.mu.Lock(); defer b.mu.Unlock(); return b.changed }

func (b *book) Tip() (uint64, chain.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return uint64(len(b.packets)), chain.Hash{}
}

func (b *book) Packets(_ context.Context, q ledger.Query) ([]ledger.Packet, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []ledger.Packet
	for _, p := range b.packets {
		if p.Seq > q.After && strings.HasPrefix(string(p.Kind), string(q.Kind)) {
			out = append(out, p)
		}
	}
	return out, nil
}

func load(t testing.TB, text string) ([]webhook.Hook, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "webhooks.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return webhook.Load(path)
}

func run(t *testing.T, b *book, hooks []webhook.Hook) {
	t.Helper()
	s, err := webhook.New(webhook.Options{
		Hooks: hooks, Ledger: b, Backoff: time.Millisecond,
		Approval: func(id string) (consent.Approval, error) {
			if id != "a-1" {
				return consent.Approval{}, errors.New("gone")
			}
			return consent.Approval{
				ID: id, Risk: "high", Arguments: map[string]any{"text": "the-argument"}, Hosts: []string{"the-argument.example"}, Paths: []string{"/the-argument"},
			}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// A notice is signed, and sent again until it is taken; one receiver that fails holds up no other.
func TestReceivers(t *testing.T) {
	got := make(chan webhook.Message, 16)
	var mu sync.Mutex
	failures := 2
	hooks, err := load(t, `{"version":1,"hooks":[]}`)
	if err != nil || len(hooks) != 0 {
		t.Fatal(err)
	}
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Webhook-Signature") != webhook.Sign(hooks[0].Key, r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), body) {
			t.Errorf("the signature is wrong: %v", r.Header)
		}
		mu.Lock()
		defer mu.Unlock()
		if failures > 0 {
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if strings.Contains(string(body), "the-argument") {
			t.Errorf("it tells the arguments: %s", body)
		}
		var m webhook.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Error(err)
		}
		got <- m
	}))
	defer good.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	bad := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer bad.Close()
	if hooks, err = load(t, fmt.Sprintf(`{"version":1,"hooks":[{"url":%q,"key":%q},{"url":%q,"key":%q}]}`, good.URL, key, bad.URL, key)); err != nil {
		t.Fatal(err)
	}
	b := &book{changed: make(chan struct{})}
	run(t, b, hooks)
	b.add("gateway.approval.asked", `{"approval":"a-1","risk":"high","arguments":{"text":"the-argument"}}`)
	b.add("gateway.grant.made", `{}`)
	b.add("gateway.approval.answered", `{"approval":"a-2","state":"denied"}`)
	for _, want := range []struct {
		kind string
		risk bool
	}{{"approval.asked", true}, {"approval.answered", false}} {
		select {
		case m := <-got:
			if m.Type != want.kind || (m.Approval != nil) != want.risk || m.By != "agent" || len(m.Data) == 0 {
				t.Errorf("%+v", m)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing came")
		}
	}
}

// Receivers are told of violations, critical drift and what follows, and of nothing harmless.
func TestReceiversHearOfDrift(t *testing.T) {
	got := make(chan webhook.Message, 16)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m webhook.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		got <- m
	}))
	defer server.Close()
	hooks, err := load(t, fmt.Sprintf(`{"version":1,"hooks":[{"url":%q,"key":%q}]}`, server.URL, key))
	if err != nil {
		t.Fatal(err)
	}
	b := &book{changed: make(chan struct{})}
	run(t, b, hooks)
	b.add(ledger.KindDrift, `{"severity":"warning"}`)
	b.add(ledger.KindDriftSurfaced, `{}`)
	b.add(ledger.KindDrift, `{"severity":"violation","drift_id":"drift_1"}`)
	b.add(ledger.KindQuarantined, `{"drift_id":"drift_1"}`)
	b.add(ledger.KindDrift, `{"severity":"critical","drift_id":"drift_2"}`)
	b.add(ledger.KindRestricted, `{"drift_id":"drift_2"}`)
	b.add(ledger.KindLifted, `{"reason":"seen"}`)
	for _, want := range []string{"drift.event", "drift.quarantined", "drift.event", "drift.restricted", "drift.lifted"} {
		select {
		case m := <-got:
			if m.Type != want || m.Tool != "tool.a.x" || m.Approval != nil || len(m.Data) < 3 {
				t.Errorf("want %s: %+v", want, m)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing came")
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"version":2}`, `{"version":1,"hooks":[{"url":"http://example.com/x","key":"` + key + `"}]}`, `{"version":1,"x":1}`,
		`{"version":1,"hooks":[{"url":"https://a:b@example.com/x","key":"` + key + `"}]}`, `{"version":1,"hooks":[{"url":"https://example.com","key":"whsec_c2hvcnQ="}]}`,
		`{"version":1,"hooks":[{"url":"ftp://example.com","key":"` + key + `"}]}`, `{"version":1,"hooks":[{"url":"https://example.com","key":"` + key[6:] + `"}]}`,
	} {
		if hooks, err := load(t, text); err == nil || len(hooks) != 0 {
			t.Errorf("%s: %v", text, hooks)
		} else if strings.Contains(err.Error(), key[10:20]) {
			t.Errorf("the key is told: %v", err)
		}
	}
	hooks, err := load(t, `{"version":1,"hooks":[{"url":"https://example.com/x","key":"`+key+`"}]}`)
	if err != nil || len(hooks) != 1 || strings.Contains(fmt.Sprintf("%v %+v %#v", hooks[0].Key, hooks[0].Key, hooks[0].Key), "0123") {
		t.Errorf("%v %v", hooks, err)
	}
	if hooks, err := webhook.Load(filepath.Join(t.TempDir(), "none")); err != nil || hooks != nil {
		t.Errorf("no file: %v %v", hooks, err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(`{"version":1,"hooks":[{"url":"https://example.com/x","key":"` + key + `"}]}`)
	f.Add(`{"version":1,"hooks":null}`)
	f.Fuzz(func(t *testing.T, text string) {
		hooks, err := load(t, text)
		if err != nil && hooks != nil {
			t.Error("receivers with an error")
		}
		for _, h := range hooks {
			if ip := net.ParseIP(h.URL.Hostname()); h.URL.Host == "" || h.URL.User != nil ||
				h.URL.Scheme != "https" && h.URL.Hostname() != "localhost" && !ip.IsLoopback() {
				t.Errorf("%s", h.URL)
			}
		}
	})
}
