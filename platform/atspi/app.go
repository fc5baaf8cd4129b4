package atspi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// toolkit is whose way of publishing elements an application has.
type toolkit int

const (
	unknownToolkit toolkit = iota
	gtk3                   // and others behind ATK's bridge: a full cache
	gtk4                   // a cache of what was asked for before; places in windows
	qt                     // no cache
	web                    // browsers: ATK's bridge, and too large to be read again each time
)

// app is one application on the bus, with the mirror of its elements.
type app struct {
	s    *session
	root place

	busy    chan struct{} // holds a token while its elements are read
	meeting chan struct{} // holds a token while it is asked what it is

	// Answers that the reading under way has, which alone uses it.
	told map[asked]*question

	mu       sync.Mutex // guards what follows
	known    bool       // what the next four lines say was asked for
	name     string
	pid      int
	kind     toolkit
	nodes    map[place]*node
	loaded   bool   // the mirror holds what a whole reading returned
	count    uint64 // of events that came, for the order between them and answers
	began    uint64 // the same, when the reading under way or the last one began
	round    uint64 // the same, when it asked for the last time what the mirror lacks
	reading  bool   // answers are on their way: events cannot be applied, only remembered
	noCache  bool   // it has none to give
	upset    bool   // an event said that the mirror is worth nothing
	full     bool   // there are more elements than are kept
	heard    time.Time
	hung     bool // a question that it did not answer in its time is still open
	gone     bool
	byLine   bool // the reading under way may go by the line
	line     *dbus.Conn
	dialed   bool // there is a line, or one is being tried, or there will be none
	lineless bool // there will be none
}

// node is one element of the mirror.
type node struct {
	at     place
	parent place
	role   uint32
	name   string
	desc   string
	states uint64
	ifaces uint16
	count  int // children that it says it has

	kids      []place
	basics    bool // role, name and states are known
	faced     bool // interfaces and description are known
	listed    bool // kids are known
	part      bool // kids are some of many
	actions   []string
	acts      bool // actions are known
	glance    bool // its states may be others: something moved
	stale     uint64
	kidsStale uint64  // when an event said so, in app.count; 0 if not
	told      uint64  // when an event last said that it changed, in app.count
	renewed   uint64  // when one said that it and all in it may be others
	seen      bool    // by the walk under way
	away      bool    // it has no place, not even outside of the screen
	box       extents // as it was told last
	inside    extents // the same, from its window's corner
	placed    bool    // inside is known
}

func newApp(s *session, root place) *app {
	return &app{s: s, root: root, busy: make(chan struct{}, 1), meeting: make(chan struct{}, 1), nodes: map[place]*node{}, count: 1}
}

// applications lists the applications on the bus now, in the registry's order.
func (s *session) applications(ctx context.Context) ([]*app, error) {
	desktop := place{ifRegistry, pathRoot}
	q := call(desktop, ifAccessible+".GetChildren")
	if err := ask(ctx, s.bus, nil, q); err != nil {
		return nil, err
	}
	roots, _ := decodePlaces(q.first(), 256)
	s.mu.Lock()
	var apps, fresh []*app
	for _, root := range roots {
		p := s.apps[root.bus]
		if p == nil || p.root != root {
			if p != nil {
				p.hangUp()
			}
			p = newApp(s, root)
			s.apps[root.bus] = p
		}
		if slices.Contains(apps, p) {
			continue
		}
		apps = append(apps, p)
		if p.processID() == 0 {
			fresh = append(fresh, p)
		}
	}
	s.mu.Unlock()
	if len(fresh) > 0 {
		var questions []*question
		for _, p := range fresh {
			questions = append(questions, call(place{ifBus, pathBus}, ifBus+".GetConnectionUnixProcessID", p.root.bus))
		}
		if err := ask(ctx, s.bus, nil, questions...); err != nil {
			return nil, err
		}
		for i, p := range fresh {
			p.mu.Lock()
			p.pid = questions[i].number()
			p.gone = p.gone || noPeer(questions[i].err)
			p.mu.Unlock()
		}
	}
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	return slices.DeleteFunc(apps, func(p *app) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.gone || p.pid == own
	}), nil
}

func (p *app) processID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// title returns the application's name for people, also of one that never answered.
func (p *app) title() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == "" && p.pid > 0 {
		comm, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid), "comm"))
		return capabilities.Clip(strings.TrimSpace(string(comm)), maxName)
	}
	return p.name
}

// heardFrom notes that the application answers.
func (p *app) heardFrom(*question) {
	p.mu.Lock()
	p.heard = time.Now()
	p.mu.Unlock()
}

func (p *app) ask(ctx context.Context, questions ...*question) error {
	p.mu.Lock()
	line := p.line
	if !p.byLine {
		line = nil
	}
	p.mu.Unlock()
	if line != nil {
		err := ask(ctx, line, p.heardFrom, questions...)
		if !errors.Is(err, platform.ErrLost) {
			return err
		}
		p.hangUp()
	}
	return ask(ctx, p.s.bus, p.heardFrom, questions...)
}

func (p *app) isKnown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// meet asks what it is, once.
func (p *app) meet(ctx context.Context) error {
	if p.isKnown() {
		return nil
	}
	select {
	case p.meeting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.meeting }()
	if p.isKnown() {
		return nil
	}
	name := property(p.root, ifAccessible, "Name")
	kit := property(p.root, ifApplication, "ToolkitName")
	if err := p.ask(ctx, name, kit); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = true
	p.name = keep(name.text(), maxName)
	switch kit.text() {
	case "gtk":
		p.kind = gtk3
	case "GTK":
		p.kind = gtk4
	case "Qt":
		p.kind = qt
	case "Chromium", "Gecko":
		p.kind = web
	}
	return nil
}

// fewNodes is how many elements are read again as quickly as what changed of them.
const fewNodes = 400

// kept reports that events keep the mirror: what they do not tell of is not asked
// again. Others give everything at once quickly (GTK), or tell too little (Qt).
func (p *app) kept() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keptLocked()
}

func (p *app) keptLocked() bool {
	return p.kind == web || p.kind == gtk3 && len(p.nodes) > p.s.few
}
