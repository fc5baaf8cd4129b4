//go:build linux

package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// withSteps lets a call take steps as a node's runner does under a gateway that permits
// everything: arguments are held to the real catalog.
func withSteps(t testing.TB, inv capabilities.Invocation) capabilities.Invocation {
	tools, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	parent, _ := tools.ByCapability(inv.Capability)
	for _, d := range tools.All() {
		if parent != nil && parent.Takes(d) {
			inv.StepTools = append(inv.StepTools, d.Tool)
		}
	}
	if len(inv.StepTools) == 0 {
		return inv
	}
	base := inv
	inv.Step = func(ctx context.Context, c capabilities.StepCall) (capabilities.Output, error) {
		d, _ := tools.Get(c.Tool)
		args, bad, err := d.SplitArgs(c.Args)
		switch {
		case err != nil:
			return capabilities.Output{}, err
		case len(bad) > 0:
			return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "%s: %s", bad[0].Path, bad[0].Message)
		}
		step := base
		step.Capability, step.Args, step.Progress, step.Observe = d.Capability, args.Canonical, func(capabilities.Progress) {}, func(string, string) {}
		ctx, cancel := context.WithTimeout(ctx, max(args.Timeout, time.Millisecond))
		defer cancel()
		return c.Run(ctx, step)
	}
	return inv
}

func (n *node) code(code string) answer {
	n.t.Helper()
	return n.must("run-code", obj{"code": code})
}

func TestRunCode(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{
		"/":  html(`<input id=name aria-label=Name><button id=b onclick="document.title='hello '+document.getElementById('name').value">Greet</button><button id=noop>Noop</button><a href=/2>Next</a>`),
		"/2": html("<p>second</p>"),
	})
	a := n.code(`
		const first = await page.navigate({url: "` + s.URL + `/"});
		page.type({selector: "#name", text: "Ada"});
		const snap = page.snapshot();
		const ref = snap.snapshot.match(/button "Greet" \[ref=(\w+)\]/)[1];
		const clicked = await page.click({ref});
		console.log("clicked", clicked.effect);
		const title = page.evaluate("document.title");
		page.click("#noop");
		const again = await page.evaluate(() => new Promise(f => setTimeout(f, 5, document.querySelectorAll("button").length)));
		return {status: first.status, title, effect: clicked.effect, again};`)
	want := `{"result":{"status":200,"title":"hello Ada","effect":"confirmed","again":2},"log":["clicked confirmed"]}`
	if a.json != want || a.Effect != capabilities.EffectPartial || !a.Untrusted || !strings.Contains(a.Evidence, "7 steps") {
		t.Errorf("%s %s %s", a.json, a.Effect, a.Evidence)
	}
	// The page it left is the page that the next call meets, refs and all.
	if got := n.eval("document.title"); got != "hello Ada" {
		t.Error(got)
	}
	if a := n.code("return page.click({selector: 'a'}).url"); a.json != `{"result":"`+s.URL+`/2"}` || a.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s %s", a.json, a.Effect)
	}
	if a := n.code("return page.waitFor({text: 'never there', timeout_ms: 300}).matched"); a.json != `{"result":false}` {
		t.Error(a.json)
	}
	if a := n.code("return page.tabs().tabs.length"); a.json != `{"result":1}` {
		t.Error(a.json)
	}
	if a := n.code("const p = page.screenshot({format: 'jpeg'}); return [p.mime, p.width > 0, Object.keys(p).includes('bytesBase64')]"); a.json != `{"result":["image/jpeg",true,false]}` || len(a.Blobs) != 1 {
		t.Error(a.json)
	}
}

// Captures of a script's steps come with what it returns, each under its own field, up
// to as many as the catalog names.
func TestCapturedByAScript(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("<style>body{background:#0f0}</style>")})
	n.goTo(s.URL + "/")
	a := n.code(`page.screenshot({clip: {x: 0, y: 0, width: 10, height: 10}}); page.evaluate("document.body.style.background = 'red'");
		page.screenshot({format: 'jpeg', clip: {x: 0, y: 0, width: 20, height: 10}}); return 1`)
	if len(a.Blobs) != 2 || a.Blobs[0].Field != "bytesBase64" || a.Blobs[0].MIME != "image/png" || a.Blobs[1].Field != "bytesBase64_2" || a.Blobs[1].MIME != "image/jpeg" {
		t.Fatalf("%+v", a.Blobs)
	}
	for i, size := range []image.Point{{10, 10}, {20, 10}} {
		if got, ok := imageSize(a.Blobs[i].Bytes); !ok || got != size {
			t.Errorf("picture %d is of %v, want %v", i, got, size)
		}
	}
	a = n.code(`let n = 0; try { for (;; n++) page.screenshot({clip: {x: 0, y: 0, width: 9, height: 9}}) } catch (e) { return [n, e.code, e.message] }`)
	if a.json != `{"result":[4,"result_too_large","A script returns at most 4 pictures and files."]}` || len(a.Blobs) != 4 {
		t.Errorf("%d pictures, %s", len(a.Blobs), a.json)
	}
}

// Each step is held to what a call is held to.
func TestRunCodeRules(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	other := newSite(t, map[string]string{"/": html("other")})
	n := newNode(t, s.URL)
	n.refused(capabilities.CodeURLBlocked, "run-code", obj{"code": "page.navigate('file:///etc/passwd')"})
	n.refused(capabilities.CodeURLBlocked, "run-code", obj{"code": "page.navigate('" + other.URL + "')"})
	n.refused(capabilities.CodeInvalidArguments, "run-code", obj{"code": "page.click({selector: 'p', nope: 1})"})
	n.refused(capabilities.CodeInvalidArguments, "run-code", obj{"code": "page.screenshot({format: 'bmp'})"})
	n.refused(capabilities.CodeElementNotFound, "run-code", obj{"code": "page.navigate('" + s.URL + "/'); page.click('#nope')"})
	for _, name := range []string{"launch", "close", "uploadFile", "runCode"} {
		if a := n.code("return typeof page." + name); a.json != `{"result":"undefined"}` {
			t.Errorf("scripts have %s: %s", name, a.json)
		}
	}
	a := n.code("try { page.navigate('" + other.URL + "') } catch (e) { return e.code }")
	if a.json != `{"result":"url_blocked"}` || other.count("/") != 0 {
		t.Error(a.json)
	}
	// No error holds typed text.
	err := n.refused(capabilities.CodeElementNotFound, "run-code", obj{"code": "page.type({selector: '#nope', text: 'hunter2'})"})
	if strings.Contains(err.Message+err.Hint+n.log.String(), "hunter2") {
		t.Error("typed text leaked:", err)
	}
	// Where nobody judges a script's steps none runs.
	_, alone := n.h.Handle(t.Context(), capabilities.Invocation{Capability: "tyrum.browser.run-code", Lane: n.lane, Args: []byte(`{"code":"return 1"}`)})
	if capabilities.CodeOf(alone) != capabilities.CodeNotSupported {
		t.Error(alone)
	}
}

// A script that fails tells what it had done until then.
func TestRunCodeFailsHalfway(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<button id=b1 onclick="document.title='done'">One</button>`)})
	n.goTo(s.URL + "/")
	for _, tc := range []struct{ code, message, details string }{
		{"console.log('before'); page.snapshot(); page.click('#b1'); page.click('#zz')", "page.click (line 1): No element matches the selector. Steps done before: 2 (snapshot, click), of them act: 1.", `{"done":2,"act":1,"log":["before"]}`},
		{"page.click('#zz')", "page.click (line 1): No element matches the selector. No step was done.", `{"done":0,"act":0}`},
		{"try { page.click('#zz') } catch (e) { console.log(e.code) }; page.click('#b1'); page.click('#zz')", "page.click (line 1): No element matches the selector. Steps done before: 1 (click), of them act: 1.", `{"done":1,"act":1,"log":["element_not_found"]}`},
	} {
		err := n.refused(capabilities.CodeElementNotFound, "run-code", obj{"code": tc.code})
		if details, _ := json.Marshal(err.Details); err.Message != tc.message || string(details) != tc.details {
			t.Errorf("%s: %q %s", tc.code, err.Message, details)
		}
	}
	// The end of a long log, as much as an error has room for.
	err := n.refused(capabilities.CodeScriptFailed, "run-code", obj{"code": "for (let i = 0; i < 40; i++) console.log('\\u0001'.repeat(100) + i); console.log('last' + 'x'.repeat(2000)); throw new Error('mine')"})
	details, _ := json.Marshal(err.Details)
	if !strings.Contains(string(details), `,"lastxxx`) || !strings.Contains(string(details), `xxx…"],"log_omitted":`) || len(details) > 4<<10 || !strings.Contains(err.Message, "mine") {
		t.Errorf("%q %d bytes: %s", err.Message, len(details), details)
	}
	n.before(time.Second, func(ctx context.Context) error {
		_, err := n.within(ctx, "run-code", obj{"code": "console.log('in vain'); page.snapshot(); for (;;);"})
		if err == nil || err.Code != capabilities.CodeDeadlineExceeded || !strings.HasPrefix(err.Message, "The script did not finish in time") {
			t.Fatal(err)
		}
		if details, _ := json.Marshal(err.Details); string(details) != `{"done":1,"act":0,"log":["in vain"]}` {
			return fmt.Errorf("%v %s", err, details)
		}
		return nil
	})
	// A script that cannot even begin has nothing to tell.
	if err := n.refused(capabilities.CodeScriptFailed, "run-code", obj{"code": "let let"}); err.Details != nil {
		t.Errorf("%v", err.Details)
	}
}

// A script ends with its call, tells its steps, and holds the lane's turn.
func TestRunCodeEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<p>page</p>")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.before(time.Second, func(ctx context.Context) error {
		deadline, _ := ctx.Deadline()
		ctx, cancel := context.WithDeadlineCause(t.Context(), deadline, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}) // as the node's runner does
		defer cancel()
		_, err := n.within(ctx, "run-code", obj{"code": "page.snapshot(); for (;;);"})
		if err == nil || err.Code != capabilities.CodeDeadlineExceeded {
			t.Fatal(err)
		}
		if !strings.Contains(err.Message, "1 steps, the last was snapshot") {
			return err
		}
		return nil
	})
	// A page that hangs under a step is freed for the next one.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := n.within(ctx, "run-code", obj{"code": "page.evaluate('for(;;);')"}); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
		t.Fatal(err)
	}
	a := n.code("try { page.evaluate({expression: 'for(;;);', timeout_ms: 300}) } catch (e) { return [e.code, page.evaluate('6*7')] }")
	if a.json != `{"result":["deadline_exceeded",42]}` {
		t.Error(a.json)
	}
	var mu sync.Mutex
	var told []string
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	raw, _ := json.Marshal(obj{"code": "page.snapshot(); page.evaluate('document.title=1'); for (;;);"})
	_, err := n.h.Handle(ctx, withSteps(t, capabilities.Invocation{Capability: "tyrum.browser.run-code", Lane: n.lane, Args: raw, Progress: func(p capabilities.Progress) {
		mu.Lock()
		told = append(told, p.Message)
		mu.Unlock()
		if p.Message == "evaluate" {
			cancel()
		}
	}}))
	if capabilities.CodeOf(err) != capabilities.CodeCancelled || strings.Join(told, " ") != "snapshot evaluate" {
		t.Fatal(err, told)
	}
	n.snap()
	// Two scripts of one lane do not run into each other.
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			a, err := n.try("run-code", obj{"code": "page.evaluate('window.k = (window.k || 0) + 1'); const k = page.evaluate('window.k'); page.evaluate('window.k--'); return k"})
			if err != nil || a.json != `{"result":1}` {
				t.Error(err, a.json)
			}
		})
	}
	wg.Wait()
	// Closing the lane ends the script.
	done := make(chan *capabilities.Error, 1)
	go func() {
		_, err := n.try("run-code", obj{"code": "page.evaluate(`fetch('/up')`); for (;;) page.evaluate('1')"})
		done <- err
	}()
	for s.count("/up") == 0 {
		time.Sleep(time.Millisecond) // the script is on its way
	}
	n.h.CloseLane(n.lane)
	if err := <-done; err == nil {
		t.Error("a script outlived its lane")
	}
}
