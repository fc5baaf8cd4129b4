package browser

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// server serves the pages of the behaviours on two origins, and knows what it
// was asked. A third origin is one that nobody may reach.
type server struct {
	a, b, none string // base addresses
	servers    []*http.Server
	files      http.Handler // what is below /files/; nil: nothing
	named      []string     // what stands for addresses of other servers, and each address

	mu   sync.Mutex // guards what follows
	runs map[string]*visits
	next int
}

// visits is what one run of a behaviour asked for.
type visits struct {
	mu      sync.Mutex
	pages   map[string]string
	seen    []visit
	changed chan struct{} // closed at the next visit
}

// visit is one request. Its fields are what pages cannot fake to themselves.
type visit struct {
	Origin, Method, Path, Query, Body string
	Header                            http.Header
}

// serve listens on two addresses, each HOST:PORT, port 0 for any. The hosts should
// differ as names: Chrome gives two ports of one host one process, and much can go
// wrong between processes only. Files of a folder are served on both, "" for none; named are pairs
// of what stands for an address and the address.
func serve(addrs [2]string, open func(addr string) (net.Listener, error), files string, named []string) (*server, error) {
	s := &server{runs: map[string]*visits{}, named: named}
	if files != "" {
		s.files = http.StripPrefix("/files/", http.FileServer(http.Dir(files)))
	}
	listen := func(addr string, into *string, origin string) error {
		l, err := open(addr)
		if err != nil {
			return fmt.Errorf("the suite's pages cannot be served: %w", err)
		}
		host, _, _ := net.SplitHostPort(addr)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		*into = "http://" + net.JoinHostPort(host, port)
		h := &http.Server{
			ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.page(origin, w, r) }),
		}
		s.servers = append(s.servers, h)
		go func() { _ = h.Serve(l) }()
		if host == "localhost" { // which may be either
			if six, err := net.Listen("tcp", net.JoinHostPort("::1", port)); err == nil {
				go func() { _ = h.Serve(six) }()
			}
		}
		return nil
	}
	for _, x := range []struct {
		addr   string
		into   *string
		origin string
	}{{addrs[0], &s.a, "A"}, {addrs[1], &s.b, "B"}, {"127.0.0.1:0", &s.none, "none"}} {
		if err := listen(x.addr, x.into, x.origin); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *server) close() {
	for _, h := range s.servers {
		_ = h.Close()
	}
}

// open makes room for one run of a behaviour and returns the path below which its pages are.
func (s *server) open(b *behaviour) (*visits, string) {
	v := &visits{pages: b.pages, changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	path := fmt.Sprintf("/%s/%d/", b.ID, s.next)
	s.runs[path] = v
	return v, path
}

func (s *server) page(origin string, w http.ResponseWriter, r *http.Request) {
	if s.files != nil && strings.HasPrefix(r.URL.Path, "/files/") {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		s.files.ServeHTTP(w, r)
		return
	}
	parts := strings.SplitN(r.URL.Path, "/", 4)
	if len(parts) < 4 {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>Handrail's capability suite</title><p>ready")
		return
	}
	base, path := strings.Join(parts[:3], "/")+"/", parts[3]
	s.mu.Lock()
	v := s.runs[base]
	s.mu.Unlock()
	if v == nil {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	v.mu.Lock()
	v.seen = append(v.seen, visit{origin, r.Method, path, r.URL.RawQuery, string(body), r.Header.Clone()})
	close(v.changed)
	v.changed = make(chan struct{})
	html, ok := v.pages[path]
	v.mu.Unlock()
	w.Header().Set("Access-Control-Allow-Origin", "*")
	w.Header().Set("Cache-Control", "no-store")
	if ok {
		if !strings.HasSuffix(path, ".js") && !strings.HasSuffix(path, ".css") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			if !strings.Contains(html, "<title>") {
				html = "<title>Test page</title>" + html
			}
			html = "<!doctype html><meta charset=utf-8>" + html
		} else if strings.HasSuffix(path, ".js") {
			w.Header().Set("Content-Type", "text/javascript")
		}
		stands := append([]string{"{A}", s.a + base, "{B}", s.b + base, "{none}", s.none + base}, s.named...)
		fmt.Fprint(w, strings.NewReplacer(stands...).Replace(html))
		return
	}
	special(path, w, r, body)
}

// special are addresses that every behaviour has.
func special(path string, w http.ResponseWriter, r *http.Request, body []byte) {
	q := r.URL.Query()
	word, rest, _ := strings.Cut(path, "/")
	switch word {
	case "seen", "favicon.ico": // only to be seen by the server
		w.WriteHeader(http.StatusNoContent)
	case "hang":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case "broken":
		panic(http.ErrAbortHandler)
	case "never":
		<-r.Context().Done()
	case "slow":
		ms, _ := strconv.Atoi(q.Get("ms"))
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", q.Get("type"))
		fmt.Fprint(w, q.Get("body"))
	case "status":
		code, _ := strconv.Atoi(rest)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(code)
		if code >= 200 && code != 204 && code != 304 {
			fmt.Fprintf(w, "<!doctype html><title>Status %d</title><p>status %d", code, code)
		}
	case "redirect":
		http.Redirect(w, r, q.Get("to"), http.StatusFound)
	case "download":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", "attachment; filename="+strconv.Quote(rest))
		fmt.Fprint(w, "0123456789")
	case "echo":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "body": string(body), "cookie": r.Header.Get("Cookie"),
			"agent": r.UserAgent(), "language": r.Header.Get("Accept-Language"), "x": r.Header.Get("X-Test")})
	case "cookie":
		http.SetCookie(w, &http.Cookie{Name: q.Get("name"), Value: q.Get("value"), Path: "/", HttpOnly: q.Has("http"), MaxAge: 600})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>cookie set</title>")
	case "image.svg":
		w.Header().Set("Content-Type", "image/svg+xml")
		fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="red"/></svg>`)
	case "socket":
		socket(w, r)
	default:
		http.NotFound(w, r)
	}
}

// socket is the least web socket there is: it says hello and closes.
func socket(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455 section 4.2.2
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	rw.WriteString("\x81\x05hello") // one text frame
	rw.WriteString("\x88\x00")      // close
	_ = rw.Flush()
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	_, _ = io.Copy(io.Discard, rw) // until the other side has closed, too
}

// matching returns the visits to a path, and what is closed at the next one.
func (v *visits) matching(path string) ([]visit, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []visit
	for _, x := range v.seen {
		if x.Path == path {
			found = append(found, x)
		}
	}
	return found, v.changed
}

// String lists what was asked for.
func (v *visits) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var all []string
	for _, x := range v.seen {
		all = append(all, strings.TrimSuffix(x.Origin+":/"+x.Path+"?"+x.Query, "?"))
	}
	return strings.Join(all, " ")
}
