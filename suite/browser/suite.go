package browser

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// Options of Run.
type Options struct {
	suite.Options
	// Lanes is how many behaviours run side by side. Default: 4.
	Lanes int
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

	// Of are what Behaviours are chosen from. Default: the suite's own.
	Of []*Behaviour
	// Files is a folder on this machine that is served to the pages, below /files/.
	// Default: none.
	Files string
	// Addresses are those of servers beside the suite's own. {name} stands for each in arguments and
	// in pages, by its name here. Default: none.
	Addresses map[string]string
	// Untraced keeps a failure from being run again for a trace: its error then ends with the
	// outline. Default: traced.
	Untraced bool
	// Shared lets one behaviour after the other use a browser whatever its family is. Default:
	// only those of families that change nothing but their document.
	Shared bool
}

// BlockedError says that the pages of the suite may not be opened.
type BlockedError struct {
	Origins []string // have to be allowed, on the gateway and on the node
	Cause   string
}

// Error says what has to be allowed.
func (e *BlockedError) Error() string {
	return fmt.Sprintf("the browser may not open the suite's own pages (%s): %s", strings.Join(e.Origins, ", "), e.Cause)
}

// whole is one run of the suite.
type whole struct {
	o          Options
	server     *server
	behaviours map[string]*behaviour
	report     suite.Report
}

// Run runs the behaviours. The error says why they could not be run at all, or
// that ctx ended; the report then holds what was known by then.
func Run(ctx context.Context, o Options) (*suite.Report, error) {
	if err := o.Complete(); err != nil {
		return nil, err
	}
	if o.Lanes <= 0 {
		o.Lanes = 4
	}
	if o.Of == nil {
		o.Of = all()
	}
	for i, any := range [2]string{"127.0.0.1:0", "localhost:0"} {
		if o.Pages[i] == "" {
			o.Pages[i] = any
		}
	}
	if o.Uploads != "" {
		if err := putFile(o.Uploads); err != nil {
			return nil, err
		}
	}
	if o.Listen == nil {
		o.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	named := make([]string, 0, 2*len(o.Addresses))
	for name, address := range o.Addresses {
		named = append(named, "{"+name+"}", address)
	}
	server, err := serve(o.Pages, o.Listen, o.Files, named)
	if err != nil {
		return nil, err
	}
	defer server.close()
	s := &whole{
		o: o, server: server, behaviours: map[string]*behaviour{},
		report: suite.Report{Suite: "browser", URL: o.URL, Origins: []string{server.a, server.b}, Began: time.Now()},
	}
	for _, b := range o.Of {
		s.behaviours[b.ID] = b
	}
	if err := s.prepare(ctx); err != nil {
		return &s.report, err
	}
	s.all(ctx)
	s.report.Took = time.Since(s.report.Began)
	return &s.report, ctx.Err()
}

// prepare asks the browser for its version and tries both origins, so that what
// is not allowed is said once and not by every behaviour.
func (s *whole) prepare(ctx context.Context) error {
	l, err := suite.Dial(ctx, s.o.Options, s.o.Name+"-1", "browser")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := l.Call(ctx, "launch", nil)
	switch {
	case err != nil:
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "the browser tools are not offered: %v", err).
			WithHint("Run 'handrail doctor' to see why no node can carry them out.")
	case c.Code != "":
		return c.Err()
	}
	s.report.Node = c.Node
	s.report.Behind, _ = c.Result["version"].(string)
	for _, origin := range s.report.Origins {
		c, err := l.Call(ctx, "navigate", map[string]any{"url": origin + "/"})
		if err != nil {
			return err
		}
		if c.Code != "" {
			return &BlockedError{Origins: s.report.Origins, Cause: string(c.Code) + ": " + c.Message}
		}
	}
	_, err = l.Call(ctx, "close", nil)
	return err
}

// all runs the behaviours in lanes side by side.
func (s *whole) all(ctx context.Context) {
	s.report.Outcomes = suite.Each(ctx, s.o.Behaviours, s.o.Lanes, func(i int) (suite.Try, func()) {
		w := &worker{s: s, name: fmt.Sprintf("%s-%d", s.o.Name, i+1), open: map[string]*suite.Lane{}}
		return w.try, w.close
	}, s.o.Done)
}

// worker runs one behaviour after the other, in conversations of its own.
type worker struct {
	s      *whole
	name   string
	open   map[string]*suite.Lane
	shared int // behaviours that the present browser has seen; maxShared: let none see it
}

// lane returns the worker's conversation of that name, opened at its first use.
func (w *worker) lane(ctx context.Context, name string) (*suite.Lane, error) {
	if l := w.open[name]; l != nil {
		return l, nil
	}
	l, err := suite.Dial(ctx, w.s.o.Options, strings.TrimSuffix(w.name+"-"+name, "-"), "browser")
	if err == nil {
		w.open[name] = l
	}
	return l, err
}

// clear closes the browser of every conversation: what comes next starts with
// nothing. A conversation that cannot be cleared is given up.
func (w *worker) clear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	w.shared = 0
	for _, name := range slices.Collect(maps.Keys(w.open)) {
		l := w.open[name]
		if c, err := l.Call(ctx, "close", nil); err != nil || c.Code != "" || name != "" {
			_ = l.Close()
			delete(w.open, name)
		}
	}
}

func (w *worker) close() {
	w.clear(context.Background())
	for _, l := range w.open {
		_ = l.Close()
	}
}

// try runs one behaviour; a failure runs once more, under record.
func (w *worker) try(ctx context.Context, one *suite.Behaviour) suite.Attempt {
	b := w.s.behaviours[one.ID]
	if b == nil {
		return suite.Attempt{Failed: "the suite has no such behaviour"}
	}
	if b.needs == needsUploads && w.s.o.Uploads == "" {
		return suite.Attempt{Lacks: string(b.needs)}
	}
	first := w.run(ctx, b, false)
	if first.failed != "" && w.s.o.Untraced {
		return suite.Attempt{Failed: first.failed + "\n" + first.end.Outline, Calls: len(*first.calls)}
	}
	return suite.Attempt{Failed: first.failed, Calls: len(*first.calls), Trace: func(o suite.Outcome) *suite.Trace {
		return w.s.told(ctx, o, first, w.run(ctx, b, true))
	}}
}

// told tells the run under record if that failed, too, else the first one.
func (s *whole) told(ctx context.Context, o suite.Outcome, first, again *run) *suite.Trace {
	of, runs := again, "This is the second run, under record. The first failed with: "+first.failed
	switch like := strings.NewReplacer(first.a, again.a, first.b, again.b, first.none, again.none); {
	case again.failed == "":
		of, runs = first, "This is the first run. Run again, under record, it passed: the failure does not show every time."
	case ctx.Err() != nil:
		of, runs = first, "This is the first run. The suite was interrupted before it had run again."
	case again.failed == like.Replace(first.failed):
		runs = "This is the second run, under record. The first failed in the same way."
	}
	return s.report.TraceOf(ctx, s.o.Options, o, of.ended(), runs)
}

// run is one run of one behaviour.
type run struct {
	//lint:ignore containedctx one run, as a value
	ctx        context.Context
	w          *worker
	id         string
	lane       *suite.Lane
	a, b, none string // addresses of its pages
	visits     *visits
	refs       map[string]string
	suite.Seen
	aside  bool // runs beside the steps: what it calls is not the last call
	failed string

	mu      *sync.Mutex // guards calls and moments
	calls   *[]*suite.Call
	record  bool
	moments *[]suite.Moment
	end     suite.Moment // what was there when it failed
}

// behaviourTime bounds one behaviour, whatever hangs.
const behaviourTime = 90 * time.Second

func (w *worker) run(ctx context.Context, b *behaviour, record bool) *run {
	tame := (tameFamilies[b.Family()] || w.s.o.Shared) && !record
	if !tame || w.shared >= maxShared {
		w.clear(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, behaviourTime)
	defer cancel()
	v, path := w.s.server.open(b)
	r := &run{
		ctx: ctx, w: w, id: b.ID, a: w.s.server.a + path, b: w.s.server.b + path, none: w.s.server.none + path, visits: v,
		refs: map[string]string{}, mu: &sync.Mutex{}, calls: &[]*suite.Call{}, record: record, moments: &[]suite.Moment{},
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
	"click": true, "type": true, "fill": true, "select": true, "key": true, "hover": true, "drag": true, "snapshot": true, "frame": true,
	"shadow": true, "wait": true, "evaluate": true, "screenshot": true, "egress": true,
	// The steps of its scripts are calls of the tame tools.
	"code": true,
}

var tameTools = map[string]bool{
	"navigate": true, "click": true, "type": true, "fill-form": true, "select-option": true, "press-key": true, "hover": true, "drag": true,
	"snapshot": true, "evaluate": true, "wait-for": true, "screenshot": true, "run-code": true,
}

// maxShared is how many behaviours use one browser at most.
const maxShared = 10

func (r *run) tame() bool {
	for _, c := range *r.calls {
		if !tameTools[c.Tool] || c.Lane != r.lane.Name {
			return false
		}
	}
	return true
}

// do runs the steps and returns what failed.
func (r *run) do(b *behaviour) (failed string) {
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
		r.Fail("%v", err)
	}
	o := *r
	o.lane = l
	return &o
}

// note remembers a call, and under record what the page shows after it.
func (r *run) note(c *suite.Call) {
	r.mu.Lock()
	*r.calls = append(*r.calls, c)
	r.w.s.o.Called(r.id, c)
	r.mu.Unlock()
	if r.record && !r.aside && c.Tool != "snapshot" && c.Tool != "evaluate" && c.Tool != "screenshot" {
		f := r.look(false)
		f.After = c
		r.mu.Lock()
		*r.moments = append(*r.moments, f)
		r.mu.Unlock()
	}
}

// ended is what a trace tells of the run.
func (r *run) ended() suite.Ended {
	e := suite.Ended{Failed: r.failed, Calls: *r.calls, Moments: *r.moments, End: r.end, Served: r.visits.String()}
	if r.lane != nil {
		e.Lane = r.lane.Name
	}
	return e
}

// look takes what is shown, with all that the page said and asked for where it is the last. A part
// that cannot be had is left out: the page may hang, or the tool may be what failed.
func (r *run) look(last bool) suite.Moment {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 8*time.Second)
	defer cancel()
	var m suite.Moment
	get := func(tool string, args map[string]any) *suite.Call {
		c, err := r.lane.Call(ctx, tool, args)
		if err != nil || c.Code != "" {
			return &suite.Call{}
		}
		return c
	}
	shot := get("screenshot", map[string]any{"format": "jpeg", "quality": 60})
	m.Image, m.MIME = shot.Blob, shot.MIME
	m.Outline, _ = get("snapshot", map[string]any{"max_chars": 8000}).Result["snapshot"].(string)
	if last {
		m.Console, _ = get("console-messages", nil).Result["messages"].([]any)
		m.Network, _ = get("network-requests", nil).Result["requests"].([]any)
	}
	return m
}
