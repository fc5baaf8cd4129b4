package browser_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/suite"
	"github.com/handrail-dev/handrail/suite/browser"
	"github.com/handrail-dev/handrail/suite/tracetest"
)

// A behaviour that fails is reported as failed, with all that a person needs to
// see why; an interrupted suite says what it did not run.
func TestFailureLeavesATrace(t *testing.T) {
	o := start(t)
	bad := browser.B("bad.covered", "a button below an overlay, pressed as if it were free", "a failure with its trace",
		browser.HTML(`<h1>Order</h1><button id=x style="font-size:20px" onclick="this.textContent='Bought'">Buy</button><button id=y onclick="document.body.insertAdjacentHTML('beforeend','<div id=ov style=&quot;position:fixed;inset:0;background:#0006&quot;>Cookies?</div>')">Later</button><script>console.warn('mind the overlay')</script>`),
		browser.Do("click", map[string]any{"selector": "#y"}), browser.Do("click", map[string]any{"selector": "#x"}))
	wrong := browser.B("bad.value", "a page that does not do what was expected", "a failure that tells what is in the page",
		browser.HTML(`<p>x`), browser.Holds(`document.querySelector('p').textContent`, "y"))
	good := browser.B("good.value", "a page that does", "no failure",
		browser.HTML(`<p>x`), browser.Holds(`document.querySelector('p').textContent`, "x"))
	o.Try(bad, wrong, good)
	report, err := browser.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	got := report.Outcomes
	if len(got) != 3 || got[0].Status != suite.Failed || got[1].Status != suite.Failed || got[2].Status != suite.Passed {
		t.Fatalf("%+v", got)
	}
	if !strings.Contains(got[0].Error, "element_obscured") || !strings.Contains(got[1].Error, `is "x", want "y"`) {
		t.Errorf("%q; %q", got[0].Error, got[1].Error)
	}
	dir := t.TempDir()
	if *reportDir != "" {
		dir = *reportDir
	}
	if err := report.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "traces", "bad.covered.html"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	tracetest.Check(t, text)
	for what, want := range map[string]string{
		"the browser": report.Behind, "the node": string(report.Node), "the failure": "element_obscured", "the cover": "Cookies?", "a picture": "data:image/jpeg;base64,",
		"the difference": `<div class="add">`, "the console": "mind the overlay", "the request": "/bad.covered/", "the rule": "browser-use", "the order of calls": "2. click",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the trace does not hold %s: %q", what, want)
		}
	}
	if n := strings.Count(text, "data:image/jpeg;base64,"); n < 4 {
		t.Errorf("%d pictures; before and after of each call were promised", n)
	}
	calls := got[0].Trace.Calls
	hops := calls[slices.IndexFunc(calls, func(c suite.CallView) bool { return c.Tool == "click" })].Hops
	if len(hops) != 12 || hops[0].When == "" || hops[6].When == "" || hops[10].When == "" || hops[11].When == "" {
		t.Errorf("hops %+v", hops)
	}

	ctx, cancel := context.WithCancel(t.Context())
	o.Done = func(suite.Outcome) { cancel() }
	o.Try(good, bad, wrong)
	o.Lanes = 1
	report, err = browser.Run(ctx, o)
	if err == nil || report == nil || report.Count(suite.NotRun) == 0 || len(report.Outcomes) != 3 {
		t.Errorf("interrupted: %v, %+v", err, report)
	}
}

// A trace is of one run: the one under record if that failed, too, else the first.
// Where several lanes take part, it names each step's.
func TestTraceIsOfOneRun(t *testing.T) {
	o := start(t)
	o.Lanes = 1
	page := browser.HTML(`<h1>Shop</h1><button onclick="console.warn('bought on '+location.pathname)">Buy</button>`)
	buy := browser.Do("click", map[string]any{"selector": "button"})
	look := browser.Do("navigate", map[string]any{"url": "{A}"})
	other := browser.In("other", look, buy, browser.Holds(`document.querySelector('h1').textContent`, "Sold out"))
	o.Try(
		browser.B("bad.once", "a page that fails the first time", "a trace of that time", page, buy, browser.Once()),
		browser.B("bad.lanes", "two conversations, of which one fails", "a trace that tells them apart", page, buy, other),
	)
	report, err := browser.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if *reportDir != "" {
		dir = *reportDir
	}
	if err := report.WriteTo(dir); err != nil {
		t.Fatal(err)
	}
	of := regexp.MustCompile(`/(bad\.[a-z]+/[0-9]+)/`)
	for _, c := range []struct{ id, run, says, lane string }{
		{"bad.lanes", "bad.lanes/4", "second run", `lane suite-1-other</p>`},
		{"bad.once", "bad.once/1", "first run", ""},
	} {
		data, err := os.ReadFile(filepath.Join(dir, "traces", c.id+".html"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		tracetest.Check(t, text)
		for _, run := range of.FindAllStringSubmatch(text, -1) {
			if run[1] != c.run {
				t.Errorf("%s tells of the run %s, and of %s", c.id, c.run, run[1])
			}
		}
		if !strings.Contains(text, "bought on /"+c.run) || !strings.Contains(text, c.says) || !strings.Contains(text, "data:image/jpeg;base64,") {
			t.Errorf("%s: not the console, the run or a picture of that run", c.id)
		}
		frames := strings.Count(text, "<figcaption>before")
		if c.lane == "" {
			if frames != 0 || strings.Contains(text, ">lane ") {
				t.Errorf("%s has %d steps with frames, or names a lane", c.id, frames)
			}
			continue
		}
		// Two calls of one lane, three of the other, which also shows its page at the end.
		if n := strings.Count(text, c.lane); frames != 4 || n != 4 || strings.Count(text, "lane suite-1</p>") != 2 {
			t.Errorf("%s has %d steps with frames, and names the lane that failed %d times", c.id, frames, n)
		}
		if strings.Count(text, "no page yet") != 2 {
			t.Errorf("%s: the first step of each lane has nothing before it", c.id)
		}
	}
}
