package packages

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/test/site"
)

// built is the program as a release of that version.
func built(t *testing.T, version string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "handrail")
	cmd := exec.Command(".ci/build", to, version)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

// A gateway is updated to the release that the tool made and signed, and goes on with its site. One
// that does not become ready is taken back, and the gateway runs in the version before.
func TestUpdateOfAGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("makes releases")
	}
	key, public := signingKey(t)
	home := t.TempDir()
	handrail := filepath.Join(home, "handrail")
	one, err := os.ReadFile(built(t, "0.1.0"))
	must(t, err)
	must(t, os.WriteFile(handrail, one, 0o755))
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	pub := filepath.Join(home, "release.pem")
	must(t, os.WriteFile(pub, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	two := release(t, built(t, "0.2.0"), "0.2.0", "update", key)
	three := release(t, built(t, "0.3.0"), "0.3.0", "update", key)
	dir := two
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServer(http.Dir(dir)).ServeHTTP(w, r)
	}))
	defer server.Close()

	data := filepath.Join(home, "site")
	env := append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+data)
	// It keeps the service of this test: a gateway, of 0.3.0 with a flag that it does not know. As a
	// good keeper it ends when the gateway is up, however long that takes: --within is for 0.3.0.
	keeper := filepath.Join(home, "restart")
	must(t, os.WriteFile(keeper, []byte(`#!/bin/sh
set -e
if [ -e "$HOME/pid" ]; then
	kill "$(cat "$HOME/pid")" 2>/dev/null || true
	while kill -0 "$(cat "$HOME/pid")" 2>/dev/null; do sleep 0.05; done
fi
bad=
case $("$HOME/handrail" version) in *0.3.0*) bad=--nosuch ;; esac
setsid "$HOME/handrail" gateway --http 127.0.0.1:0 --quic 127.0.0.1:0 $bad >>"$HOME/log" 2>&1 </dev/null &
echo $! > "$HOME/pid"
if [ -z "$bad" ]; then
	until "$HOME/handrail" status --json 2>/dev/null | grep -q '"up":true'; do
		kill -0 "$(cat "$HOME/pid")"
		sleep 0.3
	done
fi
`), 0o700))
	run := func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	t.Cleanup(func() {
		if out, err := run("sh", "-c", `kill "$(cat "$HOME/pid")"; while kill -0 "$(cat "$HOME/pid")" 2>/dev/null; do sleep 0.05; done`); err != nil {
			t.Logf("%v: %s", err, out)
		}
	})
	if out, err := run(keeper); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	status := func() (version, id string) {
		t.Helper()
		var s struct {
			Up      bool   `json:"up"`
			Gateway string `json:"gateway_version"`
			Site    string `json:"site_id"`
		}
		var out string
		for end := time.Now().Add(site.Within); time.Now().Before(end); time.Sleep(300 * time.Millisecond) { // each starts a program
			if out, _ = run(handrail, "status", "--json"); json.Unmarshal([]byte(out), &s) == nil && s.Up && s.Site != "" {
				return s.Gateway, s.Site
			}
		}
		log, _ := os.ReadFile(filepath.Join(home, "log"))
		t.Fatalf("no gateway: %s\n%s", out, log)
		return "", ""
	}
	version, id := status()
	if version != "0.1.0" {
		t.Fatalf("it begins with %s", version)
	}
	update := func(more ...string) (string, error) {
		return run(append([]string{handrail, "update", "--url", server.URL + "/handrail-update.json", "--key", pub}, more...)...)
	}
	if out, err := update("--check"); err != nil || !strings.Contains(out, "Version 0.2.0 is there") {
		t.Errorf("%v: %s", err, out)
	}
	// Nobody knows how this gateway is started anew.
	if out, err := update(); err == nil || !strings.Contains(out, "conflict") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := update("--within", "10m", "--", keeper); err != nil || !strings.Contains(out, "Updated from 0.1.0 to 0.2.0") {
		t.Fatalf("%v: %s", err, out)
	}
	if now, same := status(); now != "0.2.0" || same != id {
		t.Errorf("%s of %s runs, %s before", now, same, id)
	}
	if out, err := update("--check"); err != nil || !strings.Contains(out, "newest") {
		t.Errorf("%v: %s", err, out)
	}
	dir = three
	if out, err := update("--within", "10s", "--", keeper); err == nil || !strings.Contains(out, "update_refused") || !strings.Contains(out, "0.2.0 is in its place again and runs") {
		t.Errorf("%v: %s", err, out)
	}
	if now, same := status(); now != "0.2.0" || same != id {
		t.Errorf("%s of %s runs, %s before", now, same, id)
	}
	if b, err := os.ReadFile(handrail); err != nil || len(b) == 0 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
