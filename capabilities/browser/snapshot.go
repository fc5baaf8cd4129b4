package browser

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/chromedp/cdproto/cdp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// A snapshot is one outline over the tab's document and all frames and shadow roots
// below it. The page scripts print their documents (page/outline.js), all of it;
// this side puts the frames' lines in their places, keeps what was asked for, and
// fits it into the size that was asked for, or says only what changed (the room outline).

type view = outline.View

// question is what the page script is asked.
type question struct {
	view
	Was  *outline.Former `json:"was,omitempty"` // what the ref stood for before its document went
	Base int             `json:"base"`          // the lane's next free ref
	Rest bool            `json:"rest"`          // wait, for a moment, until the page stops changing
}

// printed is what it answers.
type printed struct {
	Text      string        `json:"text"`
	Slots     []cdp.FrameID `json:"slots"` // the foreign frames among the lines; empty: not met yet
	Strangers int           `json:"strangers"`
	Suspects  int           `json:"suspects"`
	Customs   int           `json:"customs"` // custom elements that do not say what they are
	Omitted   int           `json:"omitted"` // characters beyond what is ever read
	Hid       bool          `json:"hid"`     // what repeats a value typed in secret was left out
	Next      int           `json:"next"`
	URL       string        `json:"url"`
	Title     string        `json:"title"`
}

// seen is a page read in whole.
type seen struct {
	rows       []outline.Row
	url, title string
	omitted    int
	documents  int
}

// maxSnapshot is how many characters a snapshot has if its caller says nothing:
// inside JSON, where line ends and quotes cost two, about 4,000 tokens.
const maxSnapshot = 14000

// snapshotArgs are the tool's arguments.
type snapshotArgs struct {
	Ref         string `json:"ref"`
	Selector    string `json:"selector"`
	MaxChars    int    `json:"max_chars"`
	Interactive bool   `json:"interactive_only"`
	Depth       int    `json:"depth"`
	Search      string `json:"search"`
	Regex       bool   `json:"regex"`
	Context     int    `json:"context_lines"`
	Boxes       bool   `json:"boxes"`
	Since       string `json:"since"`

	finds func(line string) bool // what Search asks for; nil: everything
}

// snapshot carries out tyrum.browser.snapshot.
func snapshot(c *call) (capabilities.Output, error) {
	args := snapshotArgs{MaxChars: maxSnapshot}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := args.compile(); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	g, err := c.show(args, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	return capabilities.Output{Result: g, Untrusted: true}, nil
}

// maxPattern bounds a pattern in bytes. Patterns are of RE2, which takes time in proportion
// to the text, whatever they are.
const maxPattern = 1000

// compile makes what Search asks for: a text in any case of letters, or a pattern in a line
// without its dash.
func (a *snapshotArgs) compile() error {
	switch {
	case a.Search == "" && (a.Regex || a.Context > 0):
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "regex and context_lines belong to a search.").WithHint("Give search, too.")
	case a.Search == "":
	case a.Regex && len(a.Search) > maxPattern:
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "search: a pattern has at most %d bytes.", maxPattern)
	case a.Regex:
		pattern, err := regexp.Compile(a.Search)
		if err != nil {
			var why *syntax.Error
			errors.As(err, &why)
			return capabilities.Errorf(capabilities.CodeInvalidArguments, "search: the pattern is not valid: %s.",
				capabilities.Clip(why.Code.String()+" "+strconv.Quote(why.Expr), 200)).
				WithHint(`Patterns are of RE2: no look-around, no \1, at most 1000 repetitions.`)
		}
		a.finds = func(line string) bool { return pattern.MatchString(strings.TrimPrefix(line, "- ")) }
	default:
		text := strings.ToLower(a.Search)
		a.finds = func(line string) bool { return strings.Contains(strings.ToLower(line), text) }
	}
	return nil
}

// given is a snapshot as its caller gets it.
type given struct {
	Snapshot  string `json:"snapshot"`
	URL       string `json:"url"`
	Title     string `json:"title"`
	ID        string `json:"snapshot_id"`
	Delta     bool   `json:"delta,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
	Omitted   int    `json:"omitted_chars,omitempty"`
}

// snapshotFor returns the snapshot that an action was asked to bring along: none,
// delta (what changed since the tab's last snapshot, in the same view) or full.
func (c *call) snapshotFor(mode string) (given, error) {
	args := snapshotArgs{MaxChars: maxSnapshot}
	switch mode {
	case "", "none":
		return given{}, nil
	case "delta":
		if last := c.lane.memory.Latest(string(c.tab.id)); last != nil {
			args.Ref, args.Selector, args.Interactive, args.Boxes = last.View.Ref, last.View.Selector, last.View.Interactive, last.View.Boxes
			args.Since = "last"
		}
	}
	g, err := c.show(args, true)
	if err != nil && (args.Ref != "" || args.Selector != "") && c.ctx.Err() == nil {
		g, err = c.show(snapshotArgs{MaxChars: maxSnapshot}, false) // that part is gone
	}
	return g, err
}

// show reads the tab's page and shows of it what was asked for.
func (c *call) show(args snapshotArgs, rest bool) (given, error) {
	v := view{Ref: args.Ref, Selector: args.Selector, Interactive: args.Interactive, Boxes: args.Boxes}
	page, err := c.read(v, rest)
	if err != nil {
		return given{}, err
	}
	g := given{ID: c.lane.takeShot()}
	g.URL, g.Title = c.told(page.url, page.title)
	lines := strings.Split(outline.Text(page.rows), "\n")
	var before *outline.Shot
	if args.Since != "" {
		before = c.lane.memory.Find(string(c.tab.id), args.Since, v)
	}
	c.lane.memory.Keep(&outline.Shot{ID: g.ID, Tab: string(c.tab.id), Documents: page.documents, View: v, Address: page.url, Lines: lines})

	part := func(rows []outline.Row) []outline.Row {
		if args.finds != nil {
			var found int
			if rows, found = outline.Holding(rows, args.finds, args.Context); found == 0 && args.Regex {
				rows = []outline.Row{{Text: "- (no line matches the pattern; (?i) before it ignores the case of letters)"}}
			} else if found == 0 {
				rows = []outline.Row{{Text: "- (no line holds the text that was searched for)"}}
			}
		}
		if args.Depth > 0 {
			rows = outline.Shallow(rows, args.Depth)
		}
		return rows
	}
	rows := part(page.rows)
	g.Snapshot, g.Omitted = outline.Fit(rows, args.MaxChars)
	// Only of the same document, in the same view, a difference says something.
	whole := "" // why it is not a delta
	switch {
	case args.Since == "":
	case before == nil && args.Since == "last":
		whole = "no snapshot of this view is kept"
	case before == nil:
		whole = args.Since + " is not kept for this tab"
	case before.Documents != page.documents:
		whole = before.ID + " is of another document"
	case before.View != v:
		whole = before.ID + " is of another view"
	default:
		old := before.Lines
		if args.finds != nil || args.Depth > 0 {
			old = strings.Split(outline.Text(part(outline.Rows(strings.Join(old, "\n")))), "\n")
			lines = strings.Split(outline.Text(rows), "\n")
		}
		text := outline.Delta(old, lines)
		if text == "" {
			text = "(nothing changed since " + before.ID + ")"
		} else {
			text = "(changed since " + before.ID + "; now " + g.ID + ")\n" + text
		}
		if len(text) <= max(args.MaxChars, 200) && (len(text) < len(g.Snapshot) || before.ID == args.Since) {
			g.Snapshot, g.Delta, g.Omitted = text, true, 0
		} else {
			whole = "what changed since " + before.ID + " takes more room"
		}
	}
	if page.omitted > 0 && !g.Delta {
		g.Omitted += page.omitted
		g.Snapshot += fmt.Sprintf(
			"\n- (%d characters more were not read: the page is too large for one outline; read its parts with ref or selector)", page.omitted)
	}
	if whole != "" {
		g.Snapshot = "(" + whole + ": this is the page, not what changed)\n" + g.Snapshot
	}
	g.Truncated = g.Omitted > 0
	return g, nil
}

// read returns the outline of a part of the tab's page, with all frames in it.
func (c *call) read(v view, rest bool) (seen, error) {
	q := question{view: v, Base: c.lane.takeRefs(), Rest: rest}
	now, _ := c.tab.look()
	ahead := c.readAhead(v)
	var top printed
	var l listening
	first, err := c.tab.inWorld(c.ctx)
	if err == nil {
		if l = first.listen(c.ctx); l.first {
			l.hear(c.ctx) // so that a large page is not read twice
		}
	}
	w, err := c.reach(reaching{
		ref: v.Ref, selector: v.Selector, function: inpage.Snapshot, ask: func(known *outline.Former) any { q.Was = known; return q }, into: &top,
	})
	if err == nil && (rest || w != first) {
		l = w.listen(c.ctx)
	}
	for n := 0; err == nil && n < maxShadowDepth && w.knowsMore(c.ctx, top, n == 0 && l.hear(c.ctx)); n++ {
		top, q.Rest = printed{}, false
		w, err = c.tab.askAny(c.ctx, w.frame, inpage.Snapshot, q, &top)
	}
	if err != nil {
		return seen{}, err
	}
	if w.frame == nil {
		c.lane.putRefs(top.Next)
	}
	page := seen{url: top.URL, title: top.Title, documents: now.documents}
	if w.frame != nil || now.failed != "" { // an error page does not know whose it is
		if page.url, page.title, err = c.tab.locationOf(c.ctx, c.tab.askLocation(c.ctx)); err != nil {
			return seen{}, err
		}
	}
	r := &reading{c: c, v: v, ahead: ahead, page: &page, left: maxFrames}
	r.add(w, top, 0, unmoved)
	c.tab.showed(r.shown)
	return page, nil
}

// knowsMore looks up the closed roots among an outline's suspects, and what its custom
// elements are, and reports whether
// the page script knows more than it told; heard: of who listens.
func (w world) knowsMore(ctx context.Context, out printed, heard bool) bool {
	opened, told := w.openShadows(ctx, out.Suspects) > 0, w.askInternals(ctx, out.Customs)
	return opened || told || heard
}

// reading puts the outlines of a page's frames into one.
type reading struct {
	c     *call
	v     view
	ahead map[*frame]*ahead
	page  *seen
	shown []*frame
	left  int // frames that may still be read
}

// ahead is the outline of a frame on its way.
type ahead struct {
	done chan struct{}
	w    world
	out  printed
	err  error
}

// readAhead asks the frames that the last snapshot showed at the same time as the
// document itself, so that they cost no trip of their own.
func (c *call) readAhead(v view) map[*frame]*ahead {
	list := map[*frame]*ahead{}
	if v.Ref != "" || v.Selector != "" {
		return list
	}
	for _, f := range c.tab.lastShown() {
		list[f] = c.readFrame(f, v)
	}
	return list
}

// readFrame asks a frame for its outline, on a goroutine of its own. One that is on its way
// and shows nothing is asked again, for a while, as it gets on.
func (c *call) readFrame(f *frame, v view) *ahead {
	a := &ahead{done: make(chan struct{})}
	v.Ref, v.Selector = "", ""
	go func() {
		defer close(a.done)
		bounded, cancel := context.WithTimeout(c.ctx, frameWait)
		defer cancel()
		for {
			on, changed := c.tab.awaits(f)
			a.ask(c, f, v)
			if !on || a.err != nil || a.out.Text != "" {
				return
			}
			if c.tab.pause(bounded, changed, nil) != nil {
				c.tab.gaveUp(f)
				return
			}
		}
	}()
	return a
}

// ask has the frame print its outline, with what its closed roots hold.
func (a *ahead) ask(c *call, f *frame, v view) {
	for n := 0; n <= maxShadowDepth; n++ {
		a.out = printed{}
		a.w, a.err = c.tab.askFrame(c.ctx, f, inpage.Snapshot, question{view: v}, &a.out)
		if a.err != nil || !a.w.knowsMore(c.ctx, a.out, n == 0 && a.w.listen(c.ctx).hear(c.ctx)) {
			return
		}
	}
}

// add appends the outline of one document and of the frames in it.
func (r *reading) add(w world, out printed, depth int, m mapping) {
	r.page.omitted += out.Omitted
	if out.Hid {
		r.c.hidIn("snapshot")
	}
	var below []*frame
	var maps map[cdp.FrameID]framePlace
	if len(out.Slots) > 0 {
		below = r.c.tab.slots(r.c.ctx, w, out.Slots, out.Strangers)
		for _, f := range below {
			if f != nil && r.ahead[f] == nil && r.left > 0 {
				r.ahead[f] = r.c.readFrame(f, r.v)
			}
		}
		if r.v.Boxes {
			maps = w.placesOf(r.c.ctx, below)
		}
	}
	if out.Text == "" {
		return
	}
	for line := range strings.SplitSeq(out.Text, "\n") {
		line, slot := strings.CutSuffix(line, "\x01")
		if r.v.Boxes {
			line = boxPattern.ReplaceAllStringFunc(line, m.box)
		}
		x := outline.Read(line)
		x.Depth += depth
		r.page.rows = append(r.page.rows, x)
		if !slot || len(below) == 0 {
			continue
		}
		f := below[0]
		below = below[1:]
		r.frame(f, x.Depth+1, m, maps)
	}
}

// frame appends a frame's outline below its own line.
func (r *reading) frame(f *frame, depth int, m mapping, maps map[cdp.FrameID]framePlace) {
	say := func(text string) {
		r.page.rows = append(r.page.rows, outline.Row{Depth: depth, Text: "- (" + text + ")"})
	}
	switch {
	case f == nil:
		say("this frame cannot be read now")
		return
	case r.left == 0:
		say("not read: the page has too many frames")
		return
	}
	r.left--
	a := r.ahead[f]
	if a == nil {
		say("this frame cannot be read now")
		return
	}
	select {
	case <-a.done:
	case <-r.c.ctx.Done():
		return
	}
	switch {
	case a.err != nil && r.c.tab.crashedFrame(f):
		say("this frame crashed")
		return
	case a.err != nil:
		say("this frame does not answer")
		return
	}
	r.shown = append(r.shown, f)
	if strings.HasPrefix(a.out.URL, "chrome-error:") {
		say("this frame did not load; network-requests says why")
		return
	}
	if a.out.Text == "" && r.c.tab.isLoading(f) {
		say("this frame is still loading")
		return
	}
	inner := m
	if p, ok := maps[f.id]; ok {
		inner = m.after(p.Map)
	}
	r.add(a.w, a.out, depth, inner)
}
