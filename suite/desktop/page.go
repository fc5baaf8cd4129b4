package desktop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// The window that talks back: a page of this process's own web server, in a
// Chrome of its own. The page notes every event that reaches it, holds a channel
// to the server, and answers what the server asks in it. Nothing of that goes
// through the system that is tried.

// server serves the pages.
type server struct {
	listener net.Listener
	http     *http.Server
	url      string
	title    string // of every page
	done     chan struct{}

	mu    sync.Mutex
	next  int
	pages map[int]*page
	came  chan struct{} // closed and made anew when a page connects
}

// page is one document.
type page struct {
	n      int
	body   string
	orders chan string // for its channel
	up     bool

	mu      sync.Mutex
	asked   int
	answers map[int]chan json.RawMessage
}

func serve(title string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: l, title: title, url: "http://" + l.Addr().
		String(), pages: map[int]*page{}, came: make(chan struct{}), done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{n}", s.document)
	mux.HandleFunc("GET /channel/{n}", s.channel)
	mux.HandleFunc("POST /answer/{n}/{q}", s.answer)
	ctx, cancel := context.WithCancel(context.Background())
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	s.http.RegisterOnShutdown(cancel)
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l)
	}()
	return s, nil
}

func (s *server) close() {
	_ = s.http.Shutdown(context.Background())
	_ = s.http.Close()
	<-s.done
}

// add makes a document of that body.
func (s *server) add(body string) *page {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	p := &page{n: s.next, body: body, orders: make(chan string, 16), answers: map[int]chan json.RawMessage{}}
	s.pages[p.n] = p
	return p
}

func (s *server) of(req *http.Request) *page {
	n, _ := strconv.Atoi(req.PathValue("n"))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pages[n]
}

func (s *server) address(p *page) string { return fmt.Sprintf("%s/page/%d", s.url, p.n) }

// document serves the page. Its notes are events as they reach the window.
func (s *server) document(w http.ResponseWriter, req *http.Request) {
	p := s.of(req)
	if p == nil {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = strings.NewReplacer("{n}", strconv.Itoa(p.n), "{title}", s.title).WriteString(w, string(file("head.html")))
	_, _ = io.WriteString(w, p.body)
}

// channel is what the server tells the page, as server-sent events.
func (s *server) channel(w http.ResponseWriter, req *http.Request) {
	p := s.of(req)
	if p == nil {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": here\n\n")
	w.(http.Flusher).Flush()
	s.mu.Lock()
	p.up = true
	close(s.came)
	s.came = make(chan struct{})
	s.mu.Unlock()
	for {
		select {
		case order := <-p.orders:
			_, _ = io.WriteString(w, "data: "+order+"\n\n")
			w.(http.Flusher).Flush()
		case <-req.Context().Done():
			return
		}
	}
}

// answer takes what the page says to a question.
func (s *server) answer(w http.ResponseWriter, req *http.Request) {
	p := s.of(req)
	q, _ := strconv.Atoi(req.PathValue("q"))
	text, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if p == nil || err != nil {
		http.NotFound(w, req)
		return
	}
	p.mu.Lock()
	c := p.answers[q]
	delete(p.answers, q)
	p.mu.Unlock()
	if c != nil {
		c <- text
	}
}

// awaitPage waits until the page is shown and connected.
func (s *server) awaitPage(ctx context.Context, p *page) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	for {
		s.mu.Lock()
		up, came := p.up, s.came
		s.mu.Unlock()
		if up {
			return nil
		}
		select {
		case <-came:
		case <-ctx.Done():
			return fmt.Errorf("the suite's page did not open: %w", ctx.Err())
		}
	}
}

// ask evaluates an expression in the page.
func (p *page) ask(ctx context.Context, expression string) (any, error) {
	c := make(chan json.RawMessage, 1)
	p.mu.Lock()
	p.asked++
	q := p.asked
	p.answers[q] = c
	p.mu.Unlock()
	order, _ := json.Marshal(map[string]any{"q": q, "js": expression})
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	select {
	case p.orders <- string(order):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case text := <-c:
		var v any
		return v, json.Unmarshal(text, &v)
	case <-ctx.Done():
		return nil, fmt.Errorf("the page does not answer: %w", ctx.Err())
	}
}

// show puts a page of that body into the suite's window, which is opened if it is
// not, and brings the window to the front.
func (r *run) show(body string) {
	old := r.s.current
	p := r.s.server.add(body)
	if r.s.window && old != nil {
		order, _ := json.Marshal(map[string]any{"go": r.s.server.address(p)})
		old.orders <- string(order)
	} else {
		r.s.openWindow(r, p)
	}
	if err := r.s.server.awaitPage(r.ctx, p); err != nil {
		r.s.window = false
		r.Fail("%v", err)
	}
	r.page, r.s.current = p, p
	r.s.window = true
	// The page is there; what the system's parts know of it may come a moment later.
	call("wait-for", with("window", "{title}", "state", "exists", "timeout_ms", 20000))(r)
	field("status", "satisfied")(r)
	act(`window:"{title}"`, "activate")(r)
	becomes("document.hasFocus()", true)(r)
	// Until a page is painted for the first time Chrome drops the keys and clicks that come to it.
	becomes("performance.getEntriesByType('paint').length > 0", true)(r)
}

// openWindow starts the browser, as an agent would.
func (s *whole) openWindow(r *run, p *page) {
	for _, program := range s.browsers() {
		args := append(append([]string{}, program.Args...), "--app="+s.server.address(p), "--user-data-dir="+filepath.Join(s.dir, "browser"),
			"--no-first-run",
			"--no-default-browser-check", "--password-store=basic", "--force-renderer-accessibility",
			"--window-size=900,640", "--window-position=40,30",
			"--disable-features=Translate", "--disable-background-networking", "--disable-component-update")
		list := make([]any, len(args))
		for i, a := range args {
			list[i] = a
		}
		c := r.Call("act", with("action", with("kind", "launch", "app", program.App, "args", list)))
		switch c.Code {
		case "":
			s.o.Browser = program
			s.opened = append(s.opened, processOf(int(suite.Number(c.Result, "pid"))))
			return
		case "app_not_found":
			continue
		}
		r.Fail("launching %s was refused: %s", program.App, c.End())
	}
	panic(lack{"a Chrome or Chromium that the node can start"})
}

// closeWindow closes the suite's window as a person does.
func (s *whole) closeWindow() {
	if !s.window {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, _ = s.lane.Call(ctx, "act", with("target", fmt.Sprintf("window:%q", s.title), "action", with("kind", "close")))
	for _, p := range s.opened {
		p.end(ctx)
	}
	s.window = false
}

// holds wants a value of an expression in the page, now.
func holds(expression string, want any) step {
	return func(r *run) { r.compare(expression, r.eval(expression), want) }
}

// becomes wants it soon: events take their way through the desktop.
func becomes(expression string, want any) step {
	return func(r *run) {
		wanted, _ := json.Marshal(r.Fill(want))
		wait := fmt.Sprintf(`new Promise(done => { const began = Date.now(), want = JSON.stringify(%s); (async function look() {
			let v; try { v = await (%s) } catch (e) { v = 'error: ' + e }
			if (JSON.stringify(v) === want || Date.now() - began > %d) done(v); else setTimeout(look, 10) })() })`, wanted, r.fill(expression),
			patience.Milliseconds())
		r.compare(expression, r.eval(wait), want)
	}
}

// inPage does something in the page.
func inPage(expression string) step { return func(r *run) { r.eval(r.fill(expression)) } }

func (r *run) eval(expression string) any {
	v, err := r.page.ask(r.ctx, expression)
	if err != nil {
		r.Fail("%v", err)
	}
	if text, ok := v.(string); ok && strings.HasPrefix(text, "error: ") {
		r.Fail("in the page, %s: %s", capabilities.Brief(expression, 300), text)
	}
	return v
}

func (r *run) compare(what string, got, want any) {
	suite.Same(r, what, got, want, func() string {
		seen, _ := r.page.ask(r.ctx, "log.slice(-6)")
		return "; its last events are " + capabilities.Brief(suite.Brief(seen), 1200)
	})
}
