package packages

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/test/desk"
)

// free returns an address that nothing listens to, by TCP or UDP.
func free(t *testing.T) string {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	must(t, err)
	defer udp.Close()
	return tcp.Addr().String()
}

// A gateway is replaced by newer versions. The node of a person who allows it goes on in its
// version, in the same process, and the one who does not stays. A version that does not come up as
// a node is left alone.
func TestNodesFollowTheirGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("makes releases")
	}
	key, public := signingKey(t)
	home := t.TempDir()
	der, err := x509.MarshalPKIXPublicKey(public)
	must(t, err)
	pub := filepath.Join(home, "release.pem")
	must(t, os.WriteFile(pub, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	one, two, three := built(t, "0.1.0"), built(t, "0.2.0"), built(t, "0.3.0")
	// As a node, 0.3.0 does not come up.
	bad := filepath.Join(home, "bad")
	must(t, os.WriteFile(bad, fmt.Appendf(nil, "#!/bin/sh\n[ \"$1\" != node ] || exit 1\nexec %s \"$@\"\n", three), 0o755))
	dir := release(t, two, "0.2.0", "update", key)
	worse := release(t, bad, "0.3.0", "update", key)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.FileServer(http.Dir(dir)).ServeHTTP(w, r)
	}))
	defer server.Close()

	site, http, quic := filepath.Join(home, "site"), free(t), free(t)
	command := func(program, data string, args ...string) *exec.Cmd {
		cmd := exec.Command(program, append(args, "--data", data, "--json")...)
		cmd.Env = append(os.Environ(), "HOME="+home)
		return cmd
	}
	starts := func(program string) (stop func()) {
		cmd := command(program, site, "gateway", "--http", http, "--quic", quic)
		desk.Stay(t, cmd)
		return func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			desk.Await(t, "the gateway's end", func() bool {
				_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)) // also of one that nobody waited for
				return err != nil
			})
		}
	}
	type device struct {
		Label     string `json:"label"`
		Agent     string `json:"agent_version"`
		Connected bool   `json:"connected"`
	}
	is := func(label, version string) bool {
		out, err := command(three, site, "nodes").Output()
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(out)) {
			var d device
			if json.Unmarshal([]byte(line), &d) == nil && d.Label == label && d.Connected && d.Agent == version {
				return true
			}
		}
		return false
	}
	stop := starts(one)
	node := func(label string, flags ...string) (program string, pid int, log string) {
		var made struct {
			Paste string `json:"paste"`
		}
		out, err := command(one, site, "pair", "--label", label, "--yes", "--no-wait").Output()
		if err != nil || json.Unmarshal(out, &made) != nil {
			t.Fatalf("%v: %s", err, out)
		}
		folder := filepath.Join(home, label)
		program, log = filepath.Join(folder, "handrail"), filepath.Join(folder, "log")
		must(t, os.Mkdir(folder, 0o700))
		b, err := os.ReadFile(one)
		must(t, err)
		must(t, os.WriteFile(program, b, 0o755))
		join := command(program, filepath.Join(folder, "data"), "node", "join")
		join.Stdin = strings.NewReader(made.Paste)
		if out, err := join.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		run := command("sh", filepath.Join(folder, "data"), append([]string{"-c", `exec "$@" 2>>` + log, "sh", program, "node"}, flags...)...)
		desk.Stay(t, run)
		desk.Await(t, label+" to connect", func() bool { return is(label, "0.1.0") })
		return program, run.Process.Pid, log
	}
	allowed, pid, log := node("allowed", "--follow", "--follow-url", server.URL+"/handrail-update.json", "--follow-key", pub, "--follow-quiet", "0s")
	placed, _, _ := node("placed", "--follow", "--follow-quiet", "0s")
	node("forbidden")

	stop()
	must(t, os.Rename(placed, placed+".was"))
	must(t, os.Link(two, placed)) // as a package manager does
	stop = starts(two)
	for _, label := range []string{"allowed", "placed"} {
		desk.Await(t, label+" to follow", func() bool { return is(label, "0.2.0") })
	}
	desk.Await(t, "the other one to be back", func() bool { return is("forbidden", "0.1.0") })
	says := func(program string) string {
		out, err := exec.Command(program, "version").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if now, was := says(allowed), says(allowed+".before"); !strings.Contains(now, "0.2.0") || !strings.Contains(was, "0.1.0") {
		t.Errorf("%s is in place, %s before", now, was)
	}
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err != nil || exe != allowed {
		t.Errorf("the process runs %s, %v", exe, err)
	}

	stop()
	dir = worse
	starts(three)
	desk.Await(t, "the refusal", func() bool {
		b, _ := os.ReadFile(log)
		return strings.Contains(string(b), "did not reach the gateway")
	})
	desk.Await(t, "the node to go on", func() bool { return is("allowed", "0.2.0") })
	if now := says(allowed); !strings.Contains(now, "0.2.0") {
		t.Errorf("%s is in place", now)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(allowed), ".handrail-update-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left for %s", left, runtime.GOARCH)
	}
}
