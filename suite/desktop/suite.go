package desktop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// Program is how a program is started on the node. {file} in an argument is the
// file it has to open.
type Program struct {
	App  string
	Args []string
}

// Options of Run.
type Options struct {
	suite.Options
	// Browser starts a Chrome; its profile and page are added. Default: the first
	// of the usual names that the node can start.
	Browser Program
	// NoSandbox starts the default Chromes without their sandbox. Default: with it, which
	// root cannot do.
	NoSandbox bool
	// Editors are programs that open {file} and save it on Control+S, by "gtk" and
	// "qt". Default: what of the usual ones the node can start.
	Editors map[string]Program
	// Person uses the node's own mouse or keyboard once, as its person. Default:
	// behaviours with a person are not run.
	Person func(ctx context.Context) error
	// Relayout changes the arrangement of the displays and returns what undoes it. Default:
	// behaviours that need it are not run.
	Relayout func(ctx context.Context) (undo func(), err error)
	// Window asks the desktop itself where the content of the window of that title
	// is, and whether it is shown. Default: the window's page is asked, which under
	// Wayland is told neither.
	Window func(title string) (x, y int, shown bool)
	// Quiet is how long the node waits after the person touched the mouse. Default: 3 s.
	Quiet time.Duration
}

// whole is one run of the suite.
type whole struct {
	o      Options
	lane   *suite.Lane
	server *server
	dir    string
	report suite.Report

	title    string // of the window that talks back
	window   bool   // it is open
	current  *page  // what it shows
	opened   []process
	lacks    map[need]string
	programs map[string]Program // that were found, by kind
	files    int
}

// Run runs the behaviours one after the other. The error says why they could not
// be run at all, or that ctx ended; the report then holds what was known by then.
// The node has to be on this machine.
func Run(ctx context.Context, o Options) (*suite.Report, error) {
	if err := o.Complete(); err != nil {
		return nil, err
	}
	if o.Quiet == 0 {
		o.Quiet = 3 * time.Second
	}
	dir, err := os.MkdirTemp("", "handrail-suite-")
	if err != nil {
		return nil, err
	}
	defer removeAll(dir)
	title := fmt.Sprintf("Handrail suite %d", os.Getpid())
	server, err := serve(title)
	if err != nil {
		return nil, err
	}
	defer server.close()
	s := &whole{
		o: o, server: server, dir: dir, title: title, lacks: map[need]string{}, programs: map[string]Program{},
		report: suite.Report{Suite: "desktop", URL: o.URL, Began: time.Now()},
	}
	if s.lane, err = suite.Dial(ctx, o.Options, o.Name+"-1", "desktop"); err != nil {
		return nil, err
	}
	defer s.lane.Close()
	defer s.closeWindow()
	if err := s.prepare(ctx); err != nil {
		return &s.report, err
	}
	steps := map[string]*behaviour{}
	for _, b := range all() {
		steps[b.ID] = b
	}
	// One lane: there is one desktop.
	s.report.Outcomes = suite.Each(ctx, o.Behaviours, 1, func(int) (suite.Try, func()) {
		return func(ctx context.Context, b *suite.Behaviour) suite.Attempt { return s.try(ctx, steps[b.ID]) }, func() {}
	}, o.Done)
	s.report.Took = time.Since(s.report.Began)
	return &s.report, ctx.Err()
}

// prepare asks the node what it has, so that what is not permitted is said once
// and not by every behaviour.
func (s *whole) prepare(ctx context.Context) error {
	c, err := s.lane.Call(ctx, "snapshot", map[string]any{})
	switch {
	case err != nil:
		return capabilities.Errorf(capabilities.CodeNodeNotReady, "the desktop tools are not offered: %v", err).
			WithHint("Run 'handrail doctor' to see why no node can carry them out.")
	case c.Code != "":
		return c.Err()
	}
	s.report.Node = c.Node
	s.report.Behind = fmt.Sprint(suite.Pick(c.Result, "backend.mode"))
	if s.o.Person == nil {
		s.lacks[needsPerson] = string(needsPerson)
	}
	if s.o.Relayout == nil {
		s.lacks[needsLayout] = string(needsLayout)
	}
	if !canFreeze {
		s.lacks[needsFreeze] = string(needsFreeze)
	}
	return nil
}

// try runs one behaviour; a failure runs once more.
func (s *whole) try(ctx context.Context, b *behaviour) suite.Attempt {
	first := s.run(ctx, b)
	return suite.Attempt{Failed: first.failed, Lacks: first.left, Calls: len(first.calls), Trace: func(o suite.Outcome) *suite.Trace {
		runs := "Run again, "
		switch again := s.run(ctx, b); again.failed + again.left {
		case "":
			runs += "it passed: the failure does not show every time."
		case first.failed:
			runs += "it failed in the same way."
		default:
			runs += "it failed with: " + again.failed + again.left
		}
		end := suite.Moment{Outline: first.outline}
		if first.screen != nil {
			end.Image, end.MIME = first.screen.Blob, first.screen.MIME
		}
		return s.report.TraceOf(ctx, s.o.Options, o, suite.Ended{Failed: first.failed, Calls: first.calls, End: end}, runs)
	}}
}

// behaviourTime bounds one behaviour, whatever hangs.
const behaviourTime = 2 * time.Minute

// run is one run of one behaviour.
type run struct {
	//lint:ignore containedctx one run, as a value
	ctx  context.Context
	s    *whole
	vars map[string]any
	page *page
	suite.Seen
	aside bool // runs beside the steps: what it calls is not noted
	calls []*suite.Call
	clean []func()

	failed, left string
	screen       *suite.Call // when it failed
	outline      string
}

func (s *whole) run(ctx context.Context, b *behaviour) *run {
	ctx, cancel := context.WithTimeout(ctx, behaviourTime)
	defer cancel()
	r := &run{ctx: ctx, s: s, vars: map[string]any{"title": s.title}}
	r.do(b)
	if r.failed != "" {
		r.look()
	}
	for _, undo := range slices.Backward(r.clean) {
		undo()
	}
	return r
}

// do runs the steps and notes what failed, or what is not here.
func (r *run) do(b *behaviour) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			r.failed = p.text
		case lack:
			r.left = p.text
		default:
			panic(p)
		}
	}()
	for _, n := range b.needs {
		if text, ok := r.s.lacks[n]; ok {
			panic(lack{text})
		}
	}
	if b.page != "" {
		r.show(b.page)
	}
	for _, step := range b.steps {
		step(r)
	}
}

// look keeps what the screen shows. It may be what failed, so nothing comes of
// what cannot be had.
func (r *run) look() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), 10*time.Second)
	defer cancel()
	if c, err := r.s.lane.Call(ctx,
		"screenshot", map[string]any{"display": "all", "format": "jpeg", "quality": 60}); err == nil && c.Code == "" {
		r.screen = c
	}
	if c, err := r.s.lane.Call(ctx, "snapshot", map[string]any{"outline": true, "max_nodes": 300}); err == nil && c.Code == "" {
		r.outline, _ = c.Result["outline"].(string)
	}
}

// removeAll removes the suite's folder; a browser that is just ending may still
// write into its profile.
func removeAll(dir string) {
	for range 50 {
		if os.RemoveAll(dir) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}
