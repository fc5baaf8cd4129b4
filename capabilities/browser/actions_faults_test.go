//go:build linux

package browser

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// inBackground makes a call that something happens to.
func (n *node) inBackground(ctx context.Context, tool string, args any) func() (answer, *capabilities.Error) {
	var a answer
	var err *capabilities.Error
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err = n.within(ctx, tool, args)
	}()
	return func() (answer, *capabilities.Error) { <-done; return a, err }
}

// A call says what ended its action in the middle, and the next one works.
func TestActionCutShort(t *testing.T) {
	actionCutShort(t, "never ends, click", "cancelled, drag", "tab crash, press-key", "browser kill, click", "lane closed, drag")
}

// Each way to end it meets each tool.
func TestActionCutShortAtLength(t *testing.T) { actionCutShort(t) }

// actionCutShort tries the cases of those names; none: all.
func actionCutShort(t *testing.T, only ...string) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=hang onclick="fetch('/began');for(;;);">Hang</button><button id=b onclick="document.title='clicked'">B</button>
<button id=hold onmousedown="fetch('/held')" onmouseup="document.title='let go'" onkeydown="fetch('/held')" onkeyup="document.title='key up'">Hold</button>
<div id=d draggable=true ondragstart="event.dataTransfer.setData('text/plain','x');fetch('/held')" ondragend="document.title='drag over'">drag</div><div id=to ondragover="event.preventDefault()" ondrop="document.title='dropped'" style="margin-top:300px">to</div>
<input id=slow oninput="fetch('/began');for(;;);">`), "/popup": html(`<button id=x onclick="window.close()">Close</button>`)})
	awaitHit := func(path string, before int) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for s.count(path) == before {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				t.Fatal("the action did not begin")
			}
		}
	}
	n := newNodeAlone(t, s.URL)
	works := func(t *testing.T) {
		t.Helper()
		n := *n
		n.t = t
		n.goTo(s.URL + "/")
		if a := n.must("click", obj{"selector": "#b"}); a.m["title"] != "clicked" || a.Effect != capabilities.EffectConfirmed {
			t.Error(a.json, a.Evidence)
		}
	}
	works(t)
	for tool, args := range map[string]obj{"click": {"selector": "#hang"}, "fill-form": {"selector": "#slow", "value": "x"}, "type": {"selector": "#slow", "text": "x"}} {
		if !among(only, "never ends, "+tool) {
			continue
		}
		t.Run("script that never ends, "+tool, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if a, err := n.within(ctx, tool, args); err == nil || err.Code != capabilities.CodeDeadlineExceeded {
				t.Error(a.json, a.Evidence, err)
			}
			works(t)
		})
	}
	held := []struct {
		tool string
		args obj
		then string
	}{
		{"click", obj{"selector": "#hold", "hold_ms": 9000}, "let go"},
		{"press-key", obj{"selector": "#hold", "key": "x", "hold_ms": 9000}, "key up"},
		{"drag", obj{"source_selector": "#d", "target_selector": "#to", "duration_ms": 9000}, "drag over"},
	}
	for _, tc := range held {
		if !among(only, "cancelled, "+tc.tool) {
			continue
		}
		t.Run("cancelled, "+tc.tool, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			before := s.count("/held")
			wait := n.inBackground(ctx, tc.tool, tc.args)
			awaitHit("/held", before)
			cancel()
			if _, err := wait(); err == nil || err.Code != capabilities.CodeCancelled {
				t.Error(err)
			}
			// Nothing stays pressed.
			n := *n
			n.t = t
			if got := n.eval(`new Promise(f=>{const t=setInterval(()=>{if(document.title==='` + tc.then + `'){clearInterval(t);f(true)}},2)})`); got != true {
				t.Error(got)
			}
			works(t)
		})
	}
	for name, end := range map[string]struct {
		how  func()
		code capabilities.Code
	}{
		"tab crash":    {func() { tab := n.activeTab(); devtools.Start(t.Context(), tab.s, page.Crash, cdp.Empty{}) }, capabilities.CodeBrowserCrashed},
		"browser kill": {func() { n.process().Program.Close() }, capabilities.CodeBrowserCrashed},
		"lane closed":  {func() { n.h.CloseLane(n.lane) }, capabilities.CodeCancelled},
	} {
		for _, tc := range held {
			if !among(only, name+", "+tc.tool) {
				continue
			}
			t.Run(name+", "+tc.tool, func(t *testing.T) {
				before := s.count("/held")
				wait := n.inBackground(t.Context(), tc.tool, tc.args)
				awaitHit("/held", before)
				began := time.Now()
				end.how()
				if a, err := wait(); err == nil || err.Code != end.code {
					t.Error(a.json, a.Evidence, err)
					if err != nil {
						t.Error(err.Unwrap())
					}
				}
				if time.Since(began) > 8*time.Second {
					t.Error("the call waited out its hold")
				}
				works(t)
			})
		}
	}
	t.Run("tab that closes itself", func(t *testing.T) {
		n := *n
		n.t = t
		n.eval("open('/popup'); 1")
		n.must("tabs", obj{"action": "select", "index": 1})
		a := n.must("click", obj{"selector": "#x"})
		if a.Evidence != "the tab closed itself" {
			t.Error(a.json, a.Evidence)
		}
		works(t)
	})
}

// Two lanes act at once on one Chrome; neither feels the other's dialog or hang.
func TestActionsSideBySide(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=b onclick="document.title=k=(window.k||0)+1">B</button><button id=al onclick="alert(1)">A</button><input id=i>`)})
	one := newNode(t, s.URL)
	two := one.on("lane-2")
	one.goTo(s.URL + "/")
	two.goTo(s.URL + "/")
	one.must("click", obj{"selector": "#al"})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { two.must("click", obj{"selector": "#b"}) })
	}
	wg.Wait()
	two.must("type", obj{"selector": "#i", "text": "mine"})
	if got := two.eval("document.title + i.value"); got != "3mine" {
		t.Error(got)
	}
	if e := one.refused(capabilities.CodeDialogOpen, "click", obj{"selector": "#b"}); !strings.Contains(e.Message, "alert") {
		t.Error(e)
	}
	one.must("handle-dialog", obj{"accept": true})
	if got := one.eval("document.title + i.value"); got != "Test page" {
		t.Error("the other lane's page was touched:", got)
	}
}

// An exception of a handler is the reason why nothing happened; an earlier one is not.
func TestActionsTellWhatWasThrown(t *testing.T) {
	t.Parallel()
	const secret = "Zq7XwKv3Jb5"
	s := newSite(t, map[string]string{"/": html(`<input id=word type=password><button id=throws onclick="null.x">T</button><button id=rejects onclick="(async () => { throw new Error('late') })()">R</button>
<button id=kept onclick="event.preventDefault(); throw new Error('not ' + document.querySelector('input').value)">K</button>
<button id=long onclick="throw new Error('o'.repeat(482) + ' ' + document.querySelector('input').value)">L</button>
<input id=pin name=pin type=password><button id=code onclick="throw new Error('o'.repeat(476) + ' pin=' + pin.value)">C</button>
<button id=none>N</button><button id=does onclick="this.textContent += 1; throw new Error('after')">D</button>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("type", obj{"selector": "#pin", "text": "2026"})
	n.must("type", obj{"selector": "#word", "text": secret})
	for _, tc := range []struct {
		selector string
		effect   capabilities.Effect
		thrown   string
	}{
		{"#none", capabilities.EffectConfirmed, ""}, // the field tells its change
		{"#throws", capabilities.EffectSuspectNoop, "Uncaught TypeError: Cannot read properties of null"},
		{"#none", capabilities.EffectSuspectNoop, ""},
		{"#rejects", capabilities.EffectSuspectNoop, "Uncaught (in promise) Error: late"},
		{"#kept", capabilities.EffectUnverifiable, "Uncaught Error: not (hidden)"},
		{"#long", capabilities.EffectSuspectNoop, "Uncaught Error: " + strings.Repeat("o", 482) + " ("},
		{"#code", capabilities.EffectSuspectNoop, "Uncaught Error: " + strings.Repeat("o", 476) + " pin=(h"},
		{"#does", capabilities.EffectConfirmed, ""},
		{"#none", capabilities.EffectSuspectNoop, ""},
	} {
		a := n.must("click", obj{"selector": tc.selector})
		got, _ := a.m["exception"].(string)
		if a.Effect != tc.effect || !strings.HasPrefix(got, tc.thrown) || (got == "") != (tc.thrown == "") || strings.Contains(got, secret[:1]) || strings.Contains(got, "\n") {
			t.Errorf("%s: %s (%s) %q", tc.selector, a.Effect, a.Evidence, got)
		}
		if strings.Contains(a.Evidence, "threw") != (tc.thrown != "") {
			t.Errorf("%s: %s", tc.selector, a.Evidence)
		}
	}
	if a := n.must("handle-dialog", obj{"accept": true}); strings.Contains(a.json, "exception") {
		t.Error(a.json)
	}
}
