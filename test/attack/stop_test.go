package attack

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/test/site"
)

// busy is a site whose page and workers send without end, on every way that a page has,
// and obey what the site sends them. It counts what arrives.
type busy struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
	open  map[net.Conn]bool // sockets
}

// busyWorkers are the places where scripts of the page run.
var busyWorkers = []string{"page", "dedicated", "nested", "shared", "service"}

// works is a script that sends frames and requests and does what it is sent.
func works(name string) string {
	return fmt.Sprintf(`{ const w = new WebSocket(location.origin.replace("http", "ws") + "/ws?%[1]s");
		w.onopen = () => setInterval(() => w.send("tick"), 20); w.onmessage = (e) => w.send("done " + eval(e.data));
		setInterval(() => fetch("/beat?%[1]s").catch(() => 0), 100); }`, name)
}

func serveBusy(t *testing.T, secure bool) *busy {
	b := &busy{count: map[string]int{}, open: map[net.Conn]bool{}}
	pages := map[string]string{
		"/dedicated.js": works("dedicated") + `new Worker("/nested.js");`, "/nested.js": works("nested"), "/service.js": works("service") + `onmessage = () => {};`,
		"/shared.js": works("shared"),
		// Chrome ends a service worker without events after half a minute, and a stop cuts the socket
		// that kept it; a message of the page starts it again.
		"/": `<title>busy</title><script>new Worker("/dedicated.js"); new SharedWorker("/shared.js"); navigator.serviceWorker.register("/service.js");
			navigator.serviceWorker.ready.then((r) => setInterval(() => r.active.postMessage("go on"), 500));` + works("page") +
			`fetch("/upload", {method: "POST", duplex: "half", body: new ReadableStream({pull(c) { return new Promise((r) => setTimeout(() => { c.enqueue(new Uint8Array(1)); r() }, 20)) }})});</script>`,
	}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, ok := pages[r.URL.Path]
		switch {
		case r.URL.Path == "/ws":
			b.socket(w, r)
		case r.URL.Path == "/beat":
			b.saw("beat " + r.URL.RawQuery)
		case r.URL.Path == "/upload":
			b.saw("upload by " + r.Proto)
			for chunk := make([]byte, 512); ; {
				n, err := r.Body.Read(chunk)
				if n > 0 {
					b.saw("uploaded")
				}
				if err != nil {
					return
				}
			}
		case ok && strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			io.WriteString(w, page)
		case ok:
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, page)
		}
	}))
	if b.EnableHTTP2 = secure; secure {
		b.StartTLS()
	} else {
		b.Start()
	}
	t.Cleanup(b.Close)
	return b
}

// socket answers a WebSocket and counts its frames, which are short and masked.
func (b *busy) socket(w http.ResponseWriter, r *http.Request) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	b.mu.Lock()
	b.open[conn] = true
	b.mu.Unlock()
	for in := bufio.NewReader(rw); ; {
		var head [6]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		data := make([]byte, head[1]&127)
		if _, err := io.ReadFull(in, data); err != nil {
			return
		}
		for i := range data {
			data[i] ^= head[2+i%4]
		}
		if b.saw("frames " + r.URL.RawQuery); strings.HasPrefix(string(data), "done") {
			b.saw("orders done")
		}
	}
}

func (b *busy) saw(what string) {
	b.mu.Lock()
	b.count[what]++
	b.mu.Unlock()
}

// total is how much arrived, of one kind or, with "", of all.
func (b *busy) total(what string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kind, c := range b.count {
		if what == "" || kind == what {
			n += c
		}
	}
	return n
}

// order sends every open socket something to do.
func (b *busy) order() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.open {
		_, _ = conn.Write([]byte("\x81\x036*7"))
	}
}

func (b *busy) awaitMore(t *testing.T, what string) {
	t.Helper()
	before := b.total(what)
	for end := time.Now().Add(time.Minute); b.total(what) < before+2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.mu.Lock()
			defer b.mu.Unlock()
			t.Fatalf("slow: no %s at %s; there were %v", what, b.URL, b.count)
		}
	}
}

// careless finds a Chrome that takes every certificate.
type careless struct {
	platform.BrowserFinder
	dir string
}

func (c careless) Find(ctx context.Context) (platform.Browser, error) {
	b, err := c.BrowserFinder.Find(ctx)
	if err != nil {
		return b, err
	}
	script := "#!/bin/sh\nexec '" + b.Path + "' --ignore-certificate-errors \"$@\"\n"
	path := filepath.Join(c.dir, "chrome")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		return b, err
	}
	b.Path = path
	// Chrome's account has to get there.
	for dir := path; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return b, err
		}
	}
	return b, nil
}

// However a page and its workers send, over plain HTTP, TLS and HTTP/2, nothing arrives
// once either switch has stopped the node, and nothing that the site sends is obeyed.
// Then they go on.
func TestStopReallyStops(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a Chrome")
	}
	for _, by := range []string{"the device", "the gateway"} {
		t.Run("by "+by, func(t *testing.T) {
			plain, secure := serveBusy(t, false), serveBusy(t, true)
			rules := site.Rules
			for _, origin := range []string{plain.URL, secure.URL} {
				permit, err := policy.OriginPermit(origin, "the test's pages")
				if err != nil {
					t.Fatal(err)
				}
				rules += string(permit)
			}
			log := slog.New(slog.DiscardHandler)
			o := browser.Options{Finder: careless{finder, t.TempDir()}, Launcher: procguard.New(procguard.Options{Log: log}), Log: log, AllowOrigins: []string{plain.URL, secure.URL}}
			if found, err := o.Finder.Find(t.Context()); err != nil {
				t.Fatal(err)
			} else if found.NoSandbox != "" {
				o.Sandbox = browser.SandboxOff
				rules += string(policy.NoSandboxPermit("this host gives no sandbox", "test"))
			}
			pages, err := browser.New(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pages.Close() })
			s := site.Start(t, site.Options{Rules: rules, ApprovalWait: time.Millisecond})
			a := &arena{Site: s, t: t}
			a.node = s.AddNode("desk", pages)
			for _, args := range []string{`{"action":"new","url":"` + plain.URL + `/"}`, `{"action":"new","url":"` + secure.URL + `/"}`} {
				if r := a.call("tool.browser.tabs", args); r.Status != capabilities.StatusOK {
					t.Fatalf("%+v", r)
				}
			}
			ways := func(yield func(b *busy, what string) bool) {
				for _, b := range []*busy{plain, secure} {
					for _, name := range busyWorkers {
						if !yield(b, "frames "+name) || !yield(b, "beat "+name) {
							return
						}
					}
				}
			}
			for b, what := range ways {
				b.awaitMore(t, what)
			}
			secure.awaitMore(t, "uploaded")
			if secure.total("upload by HTTP/2.0") != 1 {
				t.Errorf("no HTTP/2: %v", secure.count)
			}
			plain.order()
			plain.awaitMore(t, "orders done") // the control

			if by == "the device" {
				if err := agent.SetStop(a.node.Dir, true); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.Stop(t.Context(), "admin", "enough"); err != nil {
				t.Fatal(err)
			}
			// The contract's own times: one second to stop, three in which nothing comes.
			time.Sleep(time.Second)
			for _, b := range []*busy{plain, secure} {
				b.order()
			}
			before := plain.total("") + secure.total("")
			time.Sleep(3 * time.Second)
			if more := plain.total("") + secure.total("") - before; more != 0 {
				t.Errorf("%d frames and requests came after the stop: %v %v", more, plain.count, secure.count)
			}

			if by == "the device" {
				if err := agent.SetStop(a.node.Dir, false); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.Resume(t.Context(), "admin", ""); err != nil {
				t.Fatal(err)
			}
			for b, what := range ways {
				if strings.HasPrefix(what, "beat") {
					b.awaitMore(t, what)
				}
			}
		})
	}
}
