package capability

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Options of Run.
type Options struct {
	// URL is the gateway's MCP endpoint, such as "http://127.0.0.1:7480/mcp".
	// Required.
	URL string
	// Token is an agent's. Required.
	Token string
	// ReadToken may read the ledger, for the hops in traces. Default: Token.
	ReadToken string
	// Way carries requests to the gateway. Default: http.DefaultTransport.
	Way http.RoundTripper
	// Behaviours are run. Required.
	Behaviours []*Behaviour
	// Lanes is how many run side by side. Default: 4.
	Lanes int
	// Name begins the lanes' names: two suites on one gateway must differ in it.
	// Default: "suite".
	Name string
	// Pages are two addresses, each HOST:PORT with a host of its own, at which the
	// suite serves its pages. The node has to reach them under these addresses.
	// Default: any free ports of 127.0.0.1 and localhost.
	Pages [2]string
	// Listen opens the listener of one of Pages, or of an address that nobody may
	// reach. Default: net.Listen for TCP.
	Listen func(addr string) (net.Listener, error)
	// Uploads is a folder on this machine, and by the same path on the node, whose
	// files the node's owner lets pages have; the suite puts a file there. Default:
	// none, and behaviours that need it are not run.
	Uploads string
	// Done is told each outcome as it is known, one at a time.
	Done func(Outcome)
}

// Status is how a behaviour ended.
type Status string

const (
	Passed Status = "passed"
	Failed Status = "failed"
	NotRun Status = "not_run" // the suite was interrupted, or something it needs is not there
)

// Outcome is what came of one behaviour.
type Outcome struct {
	*Behaviour
	Status   Status
	Error    string
	Duration time.Duration
	Calls    int
	Trace    *Trace // of a failure
}

// Report is what came of a run.
type Report struct {
	Suite    string // "" is "browser"
	Chrome   string // version; of the suite of another family, what stands behind its tools
	Node     capabilities.NodeID
	URL      string
	Origins  []string
	Began    time.Time
	Took     time.Duration
	Outcomes []Outcome // sorted by ID
}

// Count gives how many ended so.
func (r *Report) Count(s Status) (n int) {
	for _, o := range r.Outcomes {
		if o.Status == s {
			n++
		}
	}
	return n
}

// Blocked says that the pages of the suite may not be opened.
type Blocked struct {
	Origins []string // have to be allowed, on the gateway and on the node
	Cause   string
}

// Error says what has to be allowed.
func (e *Blocked) Error() string {
	return fmt.Sprintf("the browser may not open the suite's own pages (%s): %s", strings.Join(e.Origins, ", "), e.Cause)
}

// suite is one run of the whole.
type suite struct {
	o      Options
	server *server
	report Report
}

// Run runs the behaviours. The error says why they could not be run at all, or
// that ctx ended; the report then holds what was known by then.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.URL == "" || o.Token == "" || len(o.Behaviours) == 0 {
		return nil, errors.New("capability: URL, Token and Behaviours are required")
	}
	if _, err := url.Parse(o.URL); err != nil {
		return nil, err
	}
	if o.ReadToken == "" {
		o.ReadToken = o.Token
	}
	if o.Lanes <= 0 {
		o.Lanes = 4
	}
	if o.Name == "" {
		o.Name = "suite"
	}
	for i, any := range [2]string{"127.0.0.1:0", "localhost:0"} {
		if o.Pages[i] == "" {
			o.Pages[i] = any
		}
	}
	if o.Done == nil {
		o.Done = func(Outcome) {}
	}
	if o.Uploads != "" {
		if err := putFile(o.Uploads); err != nil {
			return nil, err
		}
	}
	if o.Listen == nil {
		o.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	server, err := serve(o.Pages, o.Listen)
	if err != nil {
		return nil, err
	}
	defer server.close()
	s := &suite{o: o, server: server, report: Report{URL: o.URL, Origins: []string{server.a, server.b}, Began: time.Now()}}
	if err := s.prepare(ctx); err != nil {
		return &s.report, err
	}
	s.all(ctx)
	s.report.Took = time.Since(s.report.Began)
	return &s.report, ctx.Err()
}

// prepare asks the browser for its version and tries both origins, so that what
// is not allowed is said once and not by every behaviour.
func (s *suite) prepare(ctx context.Context) error {
	l, err := dial(ctx, s.o, s.o.Name+"-1")
	if err != nil {
		return err
	}
	defer l.session.Close()
	c, err := l.call(ctx, "launch", nil)
	switch {
	case err != nil:
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "the browser tools are not offered: %v", err).
			WithHint("Run 'handrail doctor' to see why no node can carry them out.")
	case c.Code != "":
		return c.Err()
	}
	s.report.Node = c.Node
	s.report.Chrome, _ = c.Result["version"].(string)
	for _, origin := range s.report.Origins {
		c, err := l.call(ctx, "navigate", map[string]any{"url": origin + "/"})
		if err != nil {
			return err
		}
		if c.Code != "" {
			return &Blocked{Origins: s.report.Origins, Cause: string(c.Code) + ": " + c.Message}
		}
	}
	_, err = l.call(ctx, "close", nil)
	return err
}

// all runs the behaviours in lanes side by side.
func (s *suite) all(ctx context.Context) {
	s.report.Outcomes = Each(ctx, s.o.Behaviours, s.o.Lanes, func(i int) (Try, func()) {
		w := &worker{s: s, name: fmt.Sprintf("%s-%d", s.o.Name, i+1), open: map[string]*lane{}}
		return w.try, w.close
	}, s.o.Done)
}

// worker runs one behaviour after the other, in conversations of its own.
type worker struct {
	s      *suite
	name   string
	open   map[string]*lane
	shared int // behaviours that the present browser has seen; maxShared: let none see it
}

// lane gives the worker's conversation of that name, opened at its first use.
func (w *worker) lane(ctx context.Context, name string) (*lane, error) {
	if l := w.open[name]; l != nil {
		return l, nil
	}
	l, err := dial(ctx, w.s.o, strings.TrimSuffix(w.name+"-"+name, "-"))
	if err == nil {
		w.open[name] = l
	}
	return l, err
}

// clear closes the browser of every conversation: what comes next starts with
// nothing. A conversation that can not be cleared is given up.
func (w *worker) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	w.shared = 0
	for _, name := range slices.Collect(maps.Keys(w.open)) {
		l := w.open[name]
		if c, err := l.call(ctx, "close", nil); err != nil || c.Code != "" || name != "" {
			_ = l.session.Close()
			delete(w.open, name)
		}
	}
}

func (w *worker) close() {
	w.clear(context.Background())
	for _, l := range w.open {
		_ = l.session.Close()
	}
}

// try runs one behaviour; a failure runs once more, under record.
func (w *worker) try(ctx context.Context, b *Behaviour) Attempt {
	if b.needs == needsUploads && w.s.o.Uploads == "" {
		return Attempt{Lacks: string(b.needs)}
	}
	first := w.run(ctx, b, false)
	return Attempt{Failed: first.failed, Calls: len(*first.calls), Trace: func(o Outcome) *Trace { return w.s.told(ctx, o, first, w.run(ctx, b, true)) }}
}

// run is one run of one behaviour.
type run struct {
	ctx        context.Context
	w          *worker
	lane       *lane
	a, b, none string // addresses of its pages
	visits     *visits
	refs       map[string]string
	last       *Call
	aside      bool // runs beside the steps: what it calls is not the last call
	failed     string

	mu     *sync.Mutex // guards calls and frames
	calls  *[]*Call
	record bool
	frames *[]frame
	end    frame // what was there when it failed
}

// behaviourTime bounds one behaviour, whatever hangs.
const behaviourTime = 90 * time.Second

func (w *worker) run(ctx context.Context, b *Behaviour, record bool) *run {
	tame := tameFamilies[b.Family()] && !record
	if !tame || w.shared >= maxShared {
		w.clear(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, behaviourTime)
	defer cancel()
	v, path := w.s.server.open(b)
	r := &run{
		ctx: ctx, w: w, a: w.s.server.a + path, b: w.s.server.b + path, none: w.s.server.none + path, visits: v,
		refs: map[string]string{}, mu: &sync.Mutex{}, calls: &[]*Call{}, record: record, frames: &[]frame{},
	}
	r.failed = r.do(b)
	if r.failed != "" && r.lane != nil {
		r.end = r.look(true)
	}
	w.shared++
	if !tame || r.failed != "" || !r.tame() {
		w.shared = maxShared // the next one begins anew
	}
	return r
}

// tameFamilies only ever change the document that they opened themselves: no
// cookies, no storage, no window, no clock. One after the other may use a browser,
// which saves its start; after any call beyond the tame ones none does.
var tameFamilies = map[string]bool{
	"click": true, "type": true, "fill": true, "select": true, "key": true, "hover": true, "drag": true, "snapshot": true, "frame": true, "shadow": true,
}

var tameTools = map[string]bool{
	"navigate": true, "click": true, "type": true, "fill-form": true, "select-option": true, "press-key": true, "hover": true, "drag": true, "snapshot": true, "evaluate": true,
}

// maxShared is how many behaviours use one browser at most.
const maxShared = 10

func (r *run) tame() bool {
	for _, c := range *r.calls {
		if !tameTools[c.Tool] || c.Lane != r.lane.name {
			return false
		}
	}
	return true
}

// do runs the steps and gives what failed.
func (r *run) do(b *Behaviour) (failed string) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			failed, r.lane = p.text, p.lane
		default:
			panic(p)
		}
	}()
	var err error
	if r.lane, err = r.w.lane(r.ctx, ""); err != nil {
		return err.Error()
	}
	if _, ok := b.pages[""]; ok {
		open("")(r)
	}
	for _, s := range b.steps {
		s(r)
	}
	return ""
}

// other is the same run seen from another lane.
func (r *run) other(name string) *run {
	l, err := r.w.lane(r.ctx, name)
	if err != nil {
		r.fail("%v", err)
	}
	o := *r
	o.lane = l
	return &o
}

// note remembers a call, and under record what the page shows after it.
func (r *run) note(c *Call) {
	r.mu.Lock()
	*r.calls = append(*r.calls, c)
	r.mu.Unlock()
	if r.record && !r.aside && c.Tool != "snapshot" && c.Tool != "evaluate" && c.Tool != "screenshot" {
		f := r.look(false)
		f.after = c
		r.mu.Lock()
		*r.frames = append(*r.frames, f)
		r.mu.Unlock()
	}
}
