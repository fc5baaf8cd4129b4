package browser

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/tracing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
	"github.com/handrail-dev/handrail/capabilities/browser/trace"
)

// How fast a page is for the person before it: its Web Vitals, which the page script reads from
// what Chrome keeps of every document, and on request a trace of what its main threads did. Chrome
// records one trace at a time, of the processes of this tab's pages.

// vital is one of the Web Vitals.
type vital struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"` // milliseconds; CLS has no unit
	Rating string  `json:"rating"`
	What   string  `json:"due_to,omitempty"`
	URL    string  `json:"url,omitempty"` // of the picture that is meant
}

// vitalBounds are where good ends and where poor begins (web.dev/articles/vitals).
var vitalBounds = map[string][2]float64{
	"TTFB": {800, 1800}, "FCP": {1800, 3000}, "LCP": {2500, 4000}, "CLS": {0.1, 0.25}, "INP": {200, 500},
}

func (v vital) rated() string {
	switch bounds := vitalBounds[v.Name]; {
	case v.Value <= bounds[0]:
		return "good"
	case v.Value <= bounds[1]:
		return "needs improvement"
	}
	return "poor"
}

// longTasks are tasks of the main thread that a person notices.
type longTasks struct {
	Count    int     `json:"count"`
	Longest  float64 `json:"longest_ms"`
	Blocking float64 `json:"blocking_ms"` // what is beyond 50 ms of each
}

// slowRequest is one of the page's requests.
type slowRequest struct {
	URL      string  `json:"url"`
	Kind     string  `json:"kind"`
	MS       float64 `json:"ms"`
	Bytes    int64   `json:"bytes"`
	Blocking bool    `json:"blocking,omitempty"` // nothing was drawn before it was there
}

type requestSummary struct {
	Count    int           `json:"count"`
	Bytes    int64         `json:"bytes"`
	Blocking int           `json:"blocking"`
	Slowest  []slowRequest `json:"slowest"`
}

// performed is the result of the tool.
type performed struct {
	URL       string         `json:"url"`
	Title     string         `json:"title,omitempty"`
	Vitals    []vital        `json:"vitals"`
	DOMReady  float64        `json:"dom_ready_ms,omitempty"`
	Load      float64        `json:"load_ms,omitempty"`
	Long      longTasks      `json:"long_tasks"`
	Resources requestSummary `json:"resources"`
	Trace     *traced        `json:"trace,omitempty"`
}

// traced is a trace as it is told.
type traced struct {
	MS       float64       `json:"ms"`
	Busy     float64       `json:"busy_ms"`
	Blocking float64       `json:"blocking_ms"`
	Kinds    []spent       `json:"main_thread"`
	Scripts  []spent       `json:"scripts"`
	Count    int           `json:"long_task_count"`
	Tasks    []longestTask `json:"long_tasks"`
	Cut      bool          `json:"cut,omitempty"`
}

type spent struct {
	Name string  `json:"name"`
	MS   float64 `json:"ms"`
}

type longestTask struct {
	At  float64 `json:"at_ms"`
	MS  float64 `json:"ms"`
	Due string  `json:"due_to"`
}

// performance carries out tyrum.browser.performance.
func performance(c *call) (capabilities.Output, error) {
	var args struct {
		Reload  bool `json:"reload"`
		TraceMS int  `json:"trace_ms"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	var of *traced
	var err error
	switch {
	case args.TraceMS > 0:
		of, err = c.trace(time.Duration(args.TraceMS)*time.Millisecond, args.Reload)
	case args.Reload:
		err = c.reload()
	}
	if err != nil {
		return capabilities.Output{}, err
	}
	var seen struct {
		performed
		List []vital `json:"list"`
		Hid  bool    `json:"hid"`
	}
	if _, err := c.tab.ask(c.ctx, inpage.Vitals, struct{}{}, &seen); err != nil {
		return capabilities.Output{}, err
	}
	if seen.Hid {
		c.hidIn("vitals")
	}
	r := seen.performed
	r.URL, r.Title, r.Trace, r.Vitals = record.PlainURL(r.URL), clipText(r.Title, 300), of, []vital{}
	for _, v := range seen.List {
		v.Rating, v.What, v.URL = v.rated(), clipText(v.What, 300), record.PlainURL(v.URL)
		r.Vitals = append(r.Vitals, v)
	}
	for i := range r.Resources.Slowest {
		slow := &r.Resources.Slowest[i]
		slow.URL, slow.Kind = record.PlainURL(slow.URL), clipText(slow.Kind, 30)
	}
	out := capabilities.Output{Result: r, Untrusted: true}
	if len(r.Vitals) < 2 { // CLS is always there
		out.Evidence = "the page has drawn nothing that counts, or is none of the web's"
	}
	return out, nil
}

// reload loads the page anew and waits until it can be worked with.
func (c *call) reload() error {
	before, _ := c.tab.look()
	if _, err := devtools.Do(c.ctx, c.tab.s, page.Reload, page.ReloadParams{}); err != nil {
		_, err = c.notOpened(err)
		return err
	}
	if err := c.awaitDocument(before, "", "load"); err != nil && !errors.Is(err, errNotComplete) {
		_, err = c.notOpened(err)
		return err
	}
	return nil
}

// traceCategories are the kinds of events that the room trace knows.
var traceCategories = []string{"devtools.timeline", "disabled-by-default-devtools.timeline", "v8.execute", "v8", "blink_gc", "toplevel"}

var errTracing = capabilities.Errorf(capabilities.CodeOverloaded, "Chrome records one trace at a time, and records another.").
	WithHint("Try again when that has ended.")

// trace records what the page's main threads do for a while, from before it is loaded anew if that
// is asked for, and sums it up. Other calls of the lane have their turn meanwhile, unless it is.
func (c *call) trace(during time.Duration, reload bool) (*traced, error) {
	select {
	case c.tab.chrome.tracing <- struct{}{}:
		defer func() { <-c.tab.chrome.tracing }()
	case <-c.ctx.Done():
		return nil, errTracing
	}
	t := c.tab
	complete := make(chan cdpio.StreamHandle, 1)
	t.traceInto(complete)
	_, err := devtools.Do(c.ctx, t.s, tracing.Start, tracing.StartParams{
		TransferMode: tracing.StartTransferModeReturnAsStream, StreamFormat: tracing.StreamFormatJSON,
		TraceConfig: &tracing.TraceConfig{
			RecordMode:         tracing.TraceConfigRecordModeRecordUntilFull,
			IncludedCategories: traceCategories,
			ExcludedCategories: []string{"*"},
		},
	})
	var refused *devtools.ProtocolError
	if errors.As(err, &refused) && c.ctx.Err() == nil && t.life.Err() == nil {
		return nil, errTracing
	}
	if err != nil {
		return nil, err
	}
	err = c.whileTraced(during, reload)
	stream, ended := endTrace(t, complete)
	if stream != "" {
		defer devtools.Start(c.outer, t.s, cdpio.Close, cdpio.CloseParams{Handle: stream})
	}
	if err == nil {
		err = ended
	}
	if err != nil {
		return nil, err
	}
	s, err := trace.Read(&printedStream{c: c, handle: stream})
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "Chrome's trace could not be read.").WithHint("Try again.")
	}
	return asTold(s), nil
}

// whileTraced is what goes on while Chrome records.
func (c *call) whileTraced(during time.Duration, reload bool) error {
	if reload {
		if err := c.reload(); err != nil {
			return err
		}
	} else {
		c.release()
	}
	timer := time.NewTimer(during)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// maxTraceEnd is how long Chrome may take to end a trace.
const maxTraceEnd = 20 * time.Second

// endTrace has Chrome end what it records, also for a call that has ended, and returns where it
// lies.
func endTrace(t *laneTab, complete <-chan cdpio.StreamHandle) (cdpio.StreamHandle, error) {
	ctx, cancel := context.WithTimeout(t.life, maxTraceEnd)
	defer cancel()
	defer t.traceInto(nil)
	if _, err := devtools.Do(ctx, t.s, tracing.End, cdp.Empty{}); err != nil {
		return "", err
	}
	select {
	case stream := <-complete:
		return stream, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// asTold is a trace's summary as a result has it.
func asTold(s trace.Summary) *traced {
	list := func(all []trace.Spent, most int) []spent {
		short := []spent{}
		for _, a := range all[:min(len(all), most)] {
			short = append(short, spent{record.PlainURL(a.Name), a.MS})
		}
		return short
	}
	r := &traced{
		MS: s.Span, Busy: s.Busy, Blocking: s.Blocking, Kinds: list(s.Kinds, 10), Scripts: list(s.Scripts, 5), Count: s.Long,
		Tasks: []longestTask{}, Cut: s.Cut,
	}
	for _, task := range s.Tasks[:min(len(s.Tasks), 5)] {
		r.Tasks = append(r.Tasks, longestTask{task.At, task.MS, clipText(withoutUserIn(task.Due), 500)})
	}
	return r
}

// withoutUserIn takes user name and password out of the address at the end of a text.
func withoutUserIn(text string) string {
	i := strings.LastIndexByte(text, ' ') + 1
	return text[:i] + record.WithoutUser(text[i:])
}
