package escape

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/platform/sandbox"
)

// proxy is a door that answers every request itself.
type proxy struct {
	net.Listener

	mu    sync.Mutex
	hosts []string
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				p.mu.Lock()
				p.hosts = append(p.hosts, r.URL.Host)
				p.mu.Unlock()
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nfetched")
			}()
		}
	}()
	return p
}

func (p *proxy) Addr() netip.AddrPort                  { return p.Listener.Addr().(*net.TCPAddr).AddrPort() }
func (p *proxy) Direct() []netip.AddrPort              { return nil }
func (p *proxy) Names() map[string]netip.Addr          { return nil }
func (p *proxy) Nowhere() bool                         { return false }
func (p *proxy) Expect(netip.AddrPort, netip.AddrPort) {}
func (p *proxy) Tried(netip.AddrPort)                  {}

const systemPath = "/usr/local/bin:/usr/bin:/bin"

// Stock programs work behind the walls, with namespaces and without.
func TestStockPrograms(t *testing.T) {
	t.Setenv("PATH", systemPath) // a person's own programs are in folders that were not given
	ways := map[string]*sandbox.Sandbox{"as here": boxed(0)}
	if namespaces(t) {
		ways["without namespaces, Landlock 4"] = plain()
	}
	for name, c := range map[string]struct {
		needs, script, want string
		net                 bool
	}{
		"bash":                 {"bash", `for f in a b; do echo $f >$f; done; cat <(sort -r a b) | tr '\n' ' '; (sleep 0.01; echo late) & wait`, "b a late", false},
		"python3":              {"python3", `python3 -c 'import subprocess,tempfile,json,os; f=tempfile.NamedTemporaryFile(); print(json.dumps([os.path.exists(f.name), subprocess.run(["echo","ran"],capture_output=True,text=True).stdout.strip()]))'`, `[true, "ran"]`, false},
		"python3, threads":     {"python3", `python3 -c 'from concurrent.futures import ThreadPoolExecutor as T; print(sum(T(8).map(abs, range(100))))'`, "4950", false},
		"node":                 {"node", `node -e 'const c=require("child_process"),fs=require("fs"); fs.writeFileSync("n","x"); console.log(c.execFileSync("cat",["n"]).toString(), fs.readdirSync(".").join())'`, "x n", false},
		"git":                  {"git", `export GIT_CONFIG_NOSYSTEM=1; git init -q . && echo x >f && git add f && git -c user.name=n -c user.email=e@example.com commit -qm first && git log --format=%s && git status --short`, "first", false},
		"npm":                  {"npm", `echo '{"name":"p","version":"1.0.0","scripts":{"hi":"echo ran $npm_package_name"}}' >package.json; npm run -s hi`, "ran p", false},
		"curl":                 {"curl", `curl -s http://example.com/x`, "fetched", true},
		"python3, by the door": {"python3", `python3 -c 'import urllib.request as u; print(u.urlopen("http://example.com/").read().decode())'`, "fetched", true},
		"git, by the door":     {"git", `export GIT_CONFIG_NOSYSTEM=1; git ls-remote http://example.com/r.git; echo asked`, "asked", true},
	} {
		if _, err := exec.LookPath(c.needs); err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		for way, box := range ways {
			dir, err := os.MkdirTemp("/var/tmp", "handrail-stock-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			p := sandbox.Program{Argv: []string{"bash", "-c", c.script}, Dir: dir, Write: []string{dir}, Env: []string{"PATH=" + systemPath}}
			var door *proxy
			if c.net {
				door = newProxy(t)
				p.Door = door
			}
			if err := run(t, box, p, c.want); err != nil {
				t.Errorf("%s, %s: %v", name, way, err)
			}
			if door != nil && len(door.hosts) == 0 {
				t.Errorf("%s, %s: nothing came to the door", name, way)
			}
		}
	}
}

// run starts a program and wants it to say that.
func run(t *testing.T, box *sandbox.Sandbox, p sandbox.Program, want string) error {
	t.Helper()
	child, err := box.Start(t.Context(), p)
	if err != nil {
		return err
	}
	_ = child.Stdin().Close()
	text, err := io.ReadAll(child.Stdout())
	if err != nil {
		return err
	}
	code, err := child.Wait()
	if got := strings.TrimSpace(string(text)); err != nil || code != 0 || !strings.Contains(got, want) {
		return fmt.Errorf("%q (%d, %v), want %q: %s", got, code, err, want, child.Stderr())
	}
	return nil
}
