package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/test/desk"
)

// TestSatellitesAtOnce: a satellite is invited at one gateway and connected to it, and all list it
// and have its tools called. It is put out at another, which cuts it off.
func TestSatellitesAtOnce(t *testing.T) {
	f := startsAtOnce(t, "one", "two", "three")
	sat := &person{t: t, program: f.all[0].program, env: append(os.Environ(), "HOME="+f.home, "HANDRAIL_DATA="+filepath.Join(f.home, "orbit"))}
	manifest := filepath.Join(f.home, "orbit.json")
	must(t, os.WriteFile(manifest, []byte(`{"tools":[{"name":"work","description":"Works.","argv":["-c","echo done"]}]}`), 0o600))
	if out, code := sat.tries(f.all[1].does("satellite", "add", "orbit", "--yes", "--no-wait"), "satellite", "join", "orbit"); code != 0 {
		t.Fatalf("joining: %s", out)
	}
	sat.stays("satellite", "run", "orbit", "--manifest", manifest, "--", "bash")
	desk.Await(t, "the satellite's tools at another gateway", func() bool {
		_, code := f.all[2].tries("", "provider", "approve", "orbit", "--allow", "all", "--yes")
		return code == 0
	})
	call := func(at *person) (r capabilities.Result, out string) {
		out, _ = at.tries("", "call", "tool.orbit.work", "--json")
		_ = json.Unmarshal([]byte(strings.TrimSpace(out)), &r)
		return r, out
	}
	listed := func(at *person) (s api.Satellite) {
		if all := items[api.Satellite](at, "satellite", "list"); len(all) == 1 {
			s = all[0]
		}
		return s
	}
	for i, at := range f.all {
		var last string
		desk.Await(t, "a call at the gateway "+f.names[i], func() bool {
			r, out := call(at)
			last = out
			return r.Status == capabilities.StatusOK && strings.Contains(string(r.Output), "done")
		})
		if s := listed(at); s.State != "approved" || s.Health != "ready" {
			t.Errorf("the gateway %s lists it as %+v", f.names[i], s)
		}
		t.Log(last)
	}
	if n := strings.Count(f.all[0].does("ledger", "show", "--kind", "gateway.provider.added", "--json"), `"gateway.provider.added"`); n != 1 {
		t.Errorf("it was added %d times", n)
	}
	// Another gateway than the one that it is connected to is killed.
	// Nobody knows where agents have their hands by it until it is out, and what widens waits so long.
	f.run[0].signal(syscall.SIGKILL)
	f.all[2].does("pair", "--no-wait")
	for _, at := range f.all[1:] {
		desk.Await(t, "a call after a kill", func() bool { r, _ := call(at); return r.Status == capabilities.StatusOK })
	}
	// It is put out where it is not connected.
	f.all[2].does("satellite", "revoke", string(listed(f.all[2]).ID))
	for _, at := range f.all[1:] {
		desk.Await(t, "the others to know that it is out", func() bool {
			r, _ := call(at)
			return listed(at).State == "revoked" && r.Status == capabilities.StatusError
		})
	}
	if out := f.all[1].does("ledger", "verify"); !strings.Contains(out, "verifies") {
		t.Error(out)
	}
}
