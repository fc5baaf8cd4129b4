package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// stock answers as a web server, a repository of git's, a registry of npm's and an index of pip's.
func stock(w http.ResponseWriter, r *http.Request) {
	host := strings.TrimSuffix(r.Host, ":80")
	w.Header().Set("Content-Type", "text/plain")
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/npm/"):
		npmRegistry(w, r, host)
	case strings.HasPrefix(path, "/simple/"):
		pipIndex(w, r, host)
	case path == "/repo/info/refs":
		_, _ = fmt.Fprintf(w, "%040d\trefs/heads/%s\n", 7, host)
	default:
		_, _ = fmt.Fprint(w, host+" is here")
	}
}

// Programs as they are reach a host that was named by the one way that they have, and one that was
// not named once a person has said yes.
func TestStockClients(t *testing.T) {
	b := newBlocked(t)
	if b == nil {
		return
	}
	clients := []struct{ name, has, command, want string }{
		{"curl", "curl --version", "curl -sS http://HOST/", "HOST is here"},
		{"git", "git --version", "git ls-remote http://HOST/repo", "refs/heads/HOST"},
		{"python", "/usr/bin/python3 --version", `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("http://HOST/").read().decode())'`, "HOST is here"},
		{"node", "/usr/bin/node -e 'process.exit(process.versions.node.split(\".\").map(Number).reduce((a, n) => a * 1000 + n, 0) < 22021000 ? 1 : 0)'", `/usr/bin/node -e 'fetch("http://HOST/").then(r => r.text()).then(console.log)'`, "HOST is here"},
		{"npm", "/usr/bin/npm --version", `/usr/bin/npm install --no-audit --no-fund --no-update-notifier --cache got/cache --prefix got --registry http://HOST/npm/ handrail-stock && /usr/bin/node -p 'require("./got/node_modules/handrail-stock")'`, "HOST is here"},
		{"pip", "/usr/bin/python3 -m pip --version", `/usr/bin/python3 -m pip install --no-cache-dir --disable-pip-version-check --target got --index-url http://HOST/simple/ --trusted-host HOST handrail-stock && PYTHONPATH=got /usr/bin/python3 -c 'import handrail_stock'`, "HOST is here"},
	}
	tried := 0
	for _, c := range clients {
		if err := exec.Command("bash", "-c", c.has).Run(); err != nil {
			t.Logf("%s is not here: %v", c.name, err)
			continue
		}
		tried++
		for _, host := range []string{"listed.example", "asked.example"} {
			ended := b.begins("tool.fs.bash", map[string]any{"command": strings.ReplaceAll("rm -rf got; "+c.command, "HOST", host) + " 2>&1"})
			if host == "asked.example" {
				b.does("approve", b.asked("asked.example:80").ID)
			}
			r := <-ended
			if want := strings.ReplaceAll(c.want, "HOST", host); r.Status != capabilities.StatusOK || !strings.Contains(string(r.Output), want) {
				t.Errorf("%s at %s: %s %s", c.name, host, r.Output, r.Message)
			}
		}
	}
	t.Logf("%d of %d programs are here", tried, len(clients))
	var list api.DriftList // what was granted, or asked about and granted, is none
	b.admin.ok(http.MethodGet, "/v1/drift", "", &list)
	if len(list.Events) != 0 {
		t.Errorf("stock programs drift: %+v", list.Events)
	}
}
