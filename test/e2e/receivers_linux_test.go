package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// receiver keeps the messages that come to it, and checks that they are signed.
type receiver struct {
	t   *testing.T
	key []byte

	mu   sync.Mutex
	busy int // answers that say so, before it takes anything
	got  []string
	ids  map[string]int // how often each message came
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.t.Error(err)
	}
	id, stamp := q.Header.Get("Webhook-Id"), q.Header.Get("Webhook-Timestamp")
	mac := hmac.New(sha256.New, r.key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); q.Header.Get("Webhook-Signature") != want {
		r.t.Errorf("%s is signed as %s, want %s", id, q.Header.Get("Webhook-Signature"), want)
	}
	var m struct {
		Type string
		Tool string `json:"tool_id"`
		Data struct{ Severity, Evidence string }
	}
	if err := json.Unmarshal(body, &m); err != nil {
		r.t.Errorf("%s: %v", body, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[id]++
	if r.busy > 0 {
		r.busy--
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if strings.HasPrefix(m.Type, "drift.") {
		if m.Type == "drift.event" && (m.Tool != "tool.fs.bash" || m.Data.Severity != "violation" || !strings.HasPrefix(m.Data.Evidence, "169.254.169.254")) {
			r.t.Errorf("%s", body)
		}
		r.got = append(r.got, m.Type)
	}
}

// list is what came, as far as it is about drift.
func (r *receiver) list() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, " ")
}

// Drift reaches receivers of other makers from the built program: signed, in order, each at its
// own pace. One that was down or busy gets all of it later, one that wants nothing keeps no other
// from it. The owner named one domain, and each message names the host that was none of them
// (S1-20).
func TestDriftReachesReceivers(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	if _, err := site.NewWalls(); err != nil {
		t.Skip(err)
	}
	secret := []byte("a key of thirty-two bytes, or so")
	fresh := func(busy int) *receiver { return &receiver{t: t, key: secret, busy: busy, ids: map[string]int{}} }
	up, late := fresh(0), fresh(1)
	good := httptest.NewServer(up)
	t.Cleanup(good.Close)
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(gone.Close)
	held, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody else gets; closed, it is down
	must(t, err)
	down := held.Addr().String()
	must(t, held.Close())

	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	work, gateway := filepath.Join(home, "work"), filepath.Join(home, "site", "gateway")
	must(t, os.Mkdir(work, 0o700))
	must(t, os.MkdirAll(filepath.Join(gateway, "policy"), 0o700))
	key := "whsec_" + base64.StdEncoding.EncodeToString(secret)
	var hooks []string
	for _, url := range []string{gone.URL, "http://" + down, good.URL} {
		hooks = append(hooks, fmt.Sprintf(`{"url":%q,"key":%q}`, url, key))
	}
	must(t, os.WriteFile(filepath.Join(gateway, "webhooks.json"), []byte(`{"version":1,"hooks":[`+strings.Join(hooks, ",")+`]}`), 0o600))
	log := filepath.Join(home, "log")
	start := exec.Command("sh", "-c", `log=$1; shift; exec "$0" "$@" 2>"$log"`, p.program, log, "up", "--verbose", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--no-task", "--json", "--workspace", work, "--workspace-net", "listed.example")
	start.Env = p.env
	desk.Stay(t, start)
	must(t, os.WriteFile(filepath.Join(gateway, "policy", "test.cedar"), []byte(`@id("tools") permit (principal, action == Action::"tool.fs.bash", resource);`), 0o600))
	p.does("policy", "activate", "--yes")

	for range 3 {
		p.does("call", "--agent", "tool.fs.bash", `{"command":"curl -s http://169.254.169.254/; true"}`)
	}
	var drifted api.DriftList
	must(t, json.Unmarshal([]byte(p.does("drift", "list", "--json")), &drifted))
	if len(drifted.Quarantined) != 1 {
		t.Fatalf("%+v", drifted)
	}
	p.does("drift", "lift", drifted.Quarantined[0].Runner, "--reason", "a test of ours")

	const all = "drift.event drift.event drift.event drift.quarantined drift.lifted"
	until(t, "the receiver that is up to have all", func() bool { return up.list() == all })
	until(t, "the receiver that is down to be tried", func() bool {
		text, err := os.ReadFile(log)
		must(t, err)
		return strings.Contains(string(text), "webhook.failed") && strings.Contains(string(text), down)
	})
	back, err := net.Listen("tcp", down)
	must(t, err)
	server := &http.Server{Handler: late, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(back) }()
	t.Cleanup(func() { _ = server.Close() })
	until(t, "the receiver that was down to have all", func() bool { return late.list() == all })
	twice := 0
	late.mu.Lock()
	defer late.mu.Unlock()
	for id, n := range late.ids {
		if n > 1 {
			twice++
			if n > 2 {
				t.Errorf("%s came %d times", id, n)
			}
		}
	}
	if twice != 1 { // the one that it was too busy for
		t.Errorf("%d messages came again: %v", twice, late.ids)
	}
	until(t, "the receiver that wants nothing to be given up", func() bool {
		text, err := os.ReadFile(log)
		must(t, err)
		return strings.Contains(string(text), "webhook.given_up")
	})
}
