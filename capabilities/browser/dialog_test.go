//go:build linux

package browser

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/process"
)

func dialogOf(a answer) string {
	d, _ := a.m["dialog"].(map[string]any)
	if d == nil {
		return ""
	}
	s := d["type"].(string) + ":" + d["message"].(string)
	if v, ok := d["default_value"].(string); ok {
		s += ":" + v
	}
	return s
}

// An answer that is given while a dialog comes is that one's: no dialog waits beside an
// answer that waits for a dialog.
func TestAnswerMeetsDialog(t *testing.T) {
	c := &chrome{h: &Handler{}, Chrome: &process.Chrome{Conn: devtools.New(devtools.OverPipe(strings.NewReader(""), io.Discard))}}
	for range 2000 {
		tab := newLaneTab(newLane(c.h, "lane"), c, "T", "")
		tab.s = c.Conn.Root()
		start := make(chan struct{})
		var comes sync.WaitGroup
		comes.Go(func() {
			<-start
			tab.dialogOpened([]byte(`{"type":"alert","message":"m"}`))
		})
		close(start)
		armed := tab.arm(dialogAnswer{accept: true}, nil)
		comes.Wait()
		now, _ := tab.look()
		if now.open != nil && tab.armed != nil || armed != (now.open == nil) {
			t.Fatalf("open %v, armed %v, told that it is %v", now.open, tab.armed, armed)
		}
		tab.kill(nil)
	}
	c.h.wg.Wait()
}

func TestDialogs(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=al onclick="alert('boo');document.title='after alert'">A</button><button id=co onclick="document.title='confirm '+confirm('sure?')">C</button>
<button id=pr onclick="document.title='prompt '+prompt('name?','Ada')">P</button><button id=two onclick="alert('one');alert('two');document.title='both'">2</button><button id=late onclick="setTimeout(()=>alert('late'),5)">L</button>
<input id=t oninput="alert('typed')"><input id=k onkeydown="alert('key')"><button id=h onmouseenter="alert('over')">H</button><button id=plain onclick="document.title='plain'">X</button>
<div id=d draggable=true ondragstart="event.dataTransfer.setData('text/plain','x')">drag</div><div id=to ondragover="event.preventDefault()" ondrop="alert('dropped')" style="width:90px;height:40px;background:#eee">to</div>
<button id=go onclick="if(confirm('leave?'))location='/next'">G</button><iframe srcdoc="<button onclick=&quot;alert('framed')&quot;>Framed</button>"></iframe>`),
		"/next": html("next"), "/load": html("<script>document.title='v '+prompt('who?','d')</script><p>loaded"),
		"/leave": html(`<input id=i><a id=a href=/next>Next</a><script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script>`),
	})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	yes, no := obj{"accept": true}, obj{"accept": false}
	for _, tc := range []struct {
		name, tool string
		args       obj
		dialog     string
		answer     obj
		title      string
	}{
		{"alert", "click", obj{"selector": "#al"}, "alert:boo", yes, "after alert"},
		{"confirm accepted", "click", obj{"selector": "#co"}, "confirm:sure?", yes, "confirm true"},
		{"confirm declined", "click", obj{"selector": "#co"}, "confirm:sure?", no, "confirm false"},
		{"prompt", "click", obj{"selector": "#pr"}, "prompt:name?:Ada", obj{"accept": true, "prompt_text": "Grace"}, "prompt Grace"},
		{"prompt with an empty answer", "click", obj{"selector": "#pr"}, "prompt:name?:Ada", obj{"accept": true, "prompt_text": ""}, "prompt"},
		{"prompt declined", "click", obj{"selector": "#pr"}, "prompt:name?:Ada", no, "prompt null"},
		{"typing", "type", obj{"selector": "#t", "text": "a longer text"}, "alert:typed", yes, ""},
		{"key", "press-key", obj{"selector": "#k", "key": "a"}, "alert:key", yes, ""},
		{"hover", "hover", obj{"selector": "#h"}, "alert:over", yes, ""},
		{"drop", "drag", obj{"source_selector": "#d", "target_selector": "#to"}, "alert:dropped", yes, ""},
		{"later", "click", obj{"selector": "#late"}, "", nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := *n
			n.t = t
			a := n.must(tc.tool, tc.args)
			if tc.answer == nil {
				return
			}
			if dialogOf(a) != tc.dialog || a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.Evidence, "dialog") || a.m["url"] != s.URL+"/" {
				t.Errorf("%s: %s (%s), want %s", a.json, a.Effect, a.Evidence, tc.dialog)
			}
			h := n.must("handle-dialog", tc.answer)
			if h.m["dialog_type"].(string)+":"+h.m["message"].(string) != strings.TrimSuffix(tc.dialog, ":Ada") || h.m["dialog"] != nil {
				t.Error(h.json)
			}
			if tc.title != "" && h.m["title"] != tc.title {
				t.Errorf("title %v, want %s", h.m["title"], tc.title)
			}
			if got := n.eval("1+1"); got != 2.0 {
				t.Error("the page does not go on")
			}
		})
	}
	// The late one came meanwhile, or comes: whatever call meets it says so.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for met := false; !met; {
		_, err := n.within(ctx, "evaluate", obj{"expression": "1"})
		if met = err != nil; met && (err.Code != capabilities.CodeDialogOpen || !strings.Contains(err.Message, `alert dialog open: "late"`)) {
			t.Fatal(err)
		}
	}
	for tool, args := range map[string]obj{"snapshot": {}, "evaluate": {"expression": "1"}, "click": {"selector": "#plain"}, "type": {"selector": "#t", "text": "x"},
		"fill-form": {"selector": "#t", "value": "x"}, "hover": {"selector": "#plain"}, "press-key": {"key": "a"}, "select-option": {"selector": "#t", "values": []string{"x"}}} {
		n.refused(capabilities.CodeDialogOpen, tool, args)
	}
	if a := n.must("tabs", obj{}); !strings.Contains(a.json, s.URL) {
		t.Error(a.json)
	}
	n.must("handle-dialog", yes)

	// Two in a row: the answer to the first reports the second.
	n.must("click", obj{"selector": "#two"})
	if a := n.must("handle-dialog", yes); dialogOf(a) != "alert:two" || a.m["message"] != "one" {
		t.Error(a.json, a.Evidence)
	}
	if a := n.must("handle-dialog", yes); a.m["title"] != "both" {
		t.Error(a.json)
	}
	// A dialog of a frame is the tab's.
	if a := n.must("click", obj{"ref": n.ref("Framed")}); dialogOf(a) != "alert:framed" {
		t.Error(a.json)
	}
	n.must("handle-dialog", yes)
	// Answered beforehand: nothing waits.
	if a := n.must("handle-dialog", obj{"accept": true, "prompt_text": "Armed"}); !strings.Contains(a.Evidence, "next one") || a.m["dialog_type"] != nil || a.Effect != capabilities.EffectUnverifiable {
		t.Error(a.json, a.Evidence)
	}
	if a := n.must("click", obj{"selector": "#pr"}); a.m["title"] != "prompt Armed" || a.m["dialog"] != nil || !strings.Contains(a.Evidence, "accepted as told before") {
		t.Error(a.json, a.Evidence)
	}
	// Once only.
	if a := n.must("click", obj{"selector": "#co"}); dialogOf(a) != "confirm:sure?" {
		t.Error(a.json)
	}
	n.must("handle-dialog", no)
	// The answer's effect is there when it returns.
	n.must("click", obj{"selector": "#go"})
	if a := n.must("handle-dialog", obj{"accept": true, "snapshot": "full"}); a.m["url"] != s.URL+"/next" || !strings.Contains(a.json, "next") || !strings.Contains(a.Evidence, "new document") {
		t.Error(a.json, a.Evidence)
	}
	// An expression that opens one ends, and the page goes on after the answer.
	n.refused(capabilities.CodeDialogOpen, "evaluate", obj{"expression": "document.title='q '+confirm('from a script')"})
	if a := n.must("handle-dialog", yes); a.m["title"] != "q true" {
		t.Error(a.json)
	}

	// While a page loads.
	if a := n.goTo(s.URL + "/load"); dialogOf(a) != "prompt:who?:d" || a.m["url"] != s.URL+"/load" || a.Effect != capabilities.EffectPartial {
		t.Error(a.json, a.Effect, a.Evidence)
	}
	if a := n.must("handle-dialog", obj{"accept": true, "prompt_text": "me"}); a.m["title"] != "v me" {
		t.Error(a.json)
	}
	if !strings.Contains(n.snap(), "loaded") {
		t.Error("the rest of the page did not load")
	}
	// A page that does not want to be left.
	n.goTo(s.URL + "/leave")
	n.must("type", obj{"selector": "#i", "text": "unsaved"})
	if a := n.must("click", obj{"selector": "#a"}); !strings.HasPrefix(dialogOf(a), "beforeunload") || a.m["url"] != s.URL+"/leave" {
		t.Error(a.json, a.Evidence)
	}
	if a := n.must("handle-dialog", no); a.m["url"] != s.URL+"/leave" {
		t.Error(a.json)
	}
	if got := n.eval("i.value"); got != "unsaved" {
		t.Error("stayed, but lost", got)
	}
	n.must("click", obj{"selector": "#a"})
	if a := n.must("handle-dialog", yes); a.m["url"] != s.URL+"/next" {
		t.Error(a.json, a.Evidence)
	}
	// A page that closes itself on the answer.
	n.eval("window.open('/'); 1")
	n.must("tabs", obj{"action": "select", "index": 1})
	n.eval(`addEventListener('click',()=>{if(confirm('close?'))window.close()});1`)
	n.must("click", obj{"selector": "#plain"})
	if a := n.must("handle-dialog", yes); a.Effect != capabilities.EffectConfirmed {
		t.Error(a.json, a.Evidence)
	}
	// A dialog holds up its tab only, and goes with it.
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#al"})
	n.must("tabs", obj{"action": "new", "url": s.URL + "/next"})
	if !strings.Contains(n.snap(), "next") {
		t.Error("another tab is held up")
	}
	n.must("tabs", obj{"action": "select", "index": 0})
	n.refused(capabilities.CodeDialogOpen, "snapshot", obj{})
	n.must("tabs", obj{"action": "close", "index": 0})
	n.snap()
	// So does it with the lane.
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#co"})
	n.must("close", obj{})
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#plain"})
}

// A window that a page opened shares its process: its dialog holds both up.
func TestDialogOfOpenedWindow(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button onclick="w=window.open('/w')">Open</button>`), "/w": html(`<button onclick="alert('from the window')">A</button>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	if a := n.must("click", obj{"selector": "button"}); !strings.Contains(a.Evidence, "new tab") {
		t.Error(a.Evidence)
	}
	n.must("tabs", obj{"action": "select", "index": 1})
	n.must("click", obj{"selector": "button"})
	n.must("tabs", obj{"action": "select", "index": 0})
	e := n.refused(capabilities.CodeDialogOpen, "snapshot", obj{})
	if !strings.Contains(e.Message, "Tab 1") || !strings.Contains(e.Message, "from the window") {
		t.Error(e.Message)
	}
	n.must("tabs", obj{"action": "select", "index": 1})
	n.must("handle-dialog", obj{"accept": true})
	n.must("tabs", obj{"action": "select", "index": 0})
	n.snap()
}

// A dialog's report has nothing that was typed in secret.
func TestDialogKeepsSecrets(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<input type=password id=q oninput="alert('it is '+this.value)"><input type=password id=p><button onclick="alert('your password is '+p.value)">B</button>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	const secret = "corréct horse"
	f := n.must("fill-form", obj{"fields": []obj{{"selector": "#q", "value": secret}}})
	n.must("handle-dialog", obj{"accept": true})
	n.must("type", obj{"selector": "#p", "text": secret})
	a := n.must("click", obj{"selector": "button"})
	h := n.must("handle-dialog", obj{"accept": true})
	for _, text := range []string{f.json, f.Evidence, a.json, a.Evidence, h.json, h.Evidence, n.log.String()} {
		if strings.Contains(text, "horse") {
			t.Error("a password in", text)
		}
	}
	if dialogOf(a) == "" || dialogOf(f) == "" {
		t.Error(a.json)
	}
}

// Chrome takes no picture of a page that stands still: that is said, not waited
// out.
func TestScreenshotWithDialog(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button onclick="alert(1)">B</button>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "button"})
	n.refused(capabilities.CodeDialogOpen, "screenshot", obj{})
	n.must("handle-dialog", obj{"accept": true})
	n.must("screenshot", obj{})
}

// A page with a dialog open is left like any other: the dialog goes with its page.
func TestNavigateFromDialog(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=al onclick="alert('boo')">A</button><button id=two onclick="confirm('one');confirm('two');prompt('three')">2</button>
<button id=go onclick="confirm('away?');location='/other'">G</button>`),
		"/next": html("<title>Next</title>next"), "/other": html("other"), "/load": html("<script>alert('new')</script>"),
		"/leave": html(`<button onclick="alert('boo')">B</button><script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script>`)})
	n := newNode(t, s.URL)
	for _, tc := range []struct{ button, kind string }{{"#al", "alert"}, {"#two", "confirm"}, {"#go", "confirm"}} {
		n.goTo(s.URL + "/")
		n.must("click", obj{"selector": tc.button})
		a := n.must("navigate", obj{"url": s.URL + "/next", "snapshot": "full"})
		if a.m["url"] != s.URL+"/next" || a.m["status"] != 200.0 || a.m["dialog"] != nil || a.Effect != capabilities.EffectConfirmed ||
			!strings.HasPrefix(a.Evidence, "the document was opened; the "+tc.kind+" dialog of the page before was declined") || !strings.Contains(a.json, "next") {
			t.Error(tc.button, a.json, a.Effect, a.Evidence)
		}
	}
	// That was for the page before: the dialog of the next one waits.
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#al"})
	if a := n.goTo(s.URL + "/load"); dialogOf(a) != "alert:new" || a.m["url"] != s.URL+"/load" || a.Effect != capabilities.EffectPartial {
		t.Error(a.json, a.Effect, a.Evidence)
	}
	// It ends with the call, also where the page stays.
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#al"})
	n.refused(capabilities.CodeNavigationFailed, "navigate", obj{"url": s.URL + "/204"})
	if a := n.must("click", obj{"selector": "#al"}); dialogOf(a) != "alert:boo" {
		t.Error(a.json, a.Evidence)
	}
	if a := n.goTo(s.URL + "/#part"); a.m["url"] != s.URL+"/#part" || a.m["dialog"] != nil {
		t.Error(a.json, a.Evidence)
	}
	// The page's question whether it may be left is not declined so, and has to be answered
	// before another address.
	n.goTo(s.URL + "/leave")
	n.must("click", obj{"selector": "button"})
	if a := n.goTo(s.URL + "/next"); !strings.HasPrefix(dialogOf(a), "beforeunload") || a.m["url"] != s.URL+"/leave" {
		t.Error(a.json, a.Evidence)
	}
	n.refused(capabilities.CodeDialogOpen, "navigate", obj{"url": s.URL + "/other"})
	if a := n.must("handle-dialog", obj{"accept": true}); a.m["url"] != s.URL+"/next" {
		t.Error(a.json, a.Evidence)
	}
	// Until then the address is that of the page shown, not of the one to come, on the way
	// back, too.
	n.goTo(s.URL + "/leave")
	n.must("click", obj{"selector": "button"})
	n.must("handle-dialog", obj{"accept": true})
	if a := n.must("navigate-back", obj{}); !strings.HasPrefix(dialogOf(a), "beforeunload") || a.m["url"] != s.URL+"/leave" {
		t.Error(a.json, a.Evidence)
	}
	if a := n.must("tabs", obj{}); a.m["tabs"].([]any)[0].(obj)["url"] != s.URL+"/leave" {
		t.Error(a.json)
	}
	if a := n.must("handle-dialog", obj{"accept": true}); a.m["url"] != s.URL+"/next" {
		t.Error(a.json, a.Evidence)
	}
}

// A page that opens dialogs without end is left all the same, and the next one's scripts run.
func TestNavigateFromEndlessDialogs(t *testing.T) {
	navigateFromEndlessDialogs(t, "#timer", "#frame")
}

func TestNavigateFromEndlessDialogsAtLength(t *testing.T) {
	navigateFromEndlessDialogs(t, "#loop", "#slow")
}

func navigateFromEndlessDialogs(t *testing.T, buttons ...string) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=loop onclick="for(let i=0;i<1e9;i++)alert(i)">A</button><button id=timer onclick="setInterval(()=>confirm(1),0)">B</button>
<button id=slow onclick="setInterval(()=>prompt(1),15)">C</button><button id=frame onclick="f.srcdoc='<script>for(;;)alert(1)<'+'/script>'">D</button><iframe id=f></iframe>`),
		"/next": html("<script>document.title='runs'</script>")})
	n := newNodeAlone(t, s.URL)
	for _, button := range buttons {
		n.goTo(s.URL + "/")
		n.must("click", obj{"selector": button})
		n.until("the first dialog is open", func() bool { now, _ := n.tabOf().look(); return now.open != nil })
		n.must("handle-dialog", obj{"accept": true})
		a := n.goTo(s.URL + "/next")
		if a.m["title"] != "runs" || a.Effect != capabilities.EffectConfirmed {
			t.Error(button, a.json, a.Effect, a.Evidence)
		}
		n.must("snapshot", obj{})
	}
}

// An answer given beforehand is for what the page shown asks: it does not go along to
// the address that navigate opens.
func TestArmedAnswerEndsWithItsPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<a href=/asks>Go</a>`), "/asks": html("<script>document.title='got '+confirm('sell?')</script>"),
		"/leave": html(`<input id=i><script>onbeforeunload=e=>{e.preventDefault();return 'stay'}</script>`)})
	n := newNode(t, s.URL)
	yes := obj{"accept": true}
	n.goTo(s.URL + "/")
	n.must("handle-dialog", yes)
	if a := n.goTo(s.URL + "/asks"); dialogOf(a) != "confirm:sell?" {
		t.Error(a.json, a.Evidence)
	}
	n.must("handle-dialog", obj{"accept": false})
	// It goes along with what the page itself leads to, and within the document.
	n.goTo(s.URL + "/")
	n.must("handle-dialog", yes)
	n.goTo(s.URL + "/#part")
	n.must("click", obj{"selector": "a"})
	if got := n.eval("document.title"); got != "got true" {
		t.Error(got)
	}
	// And it is for the page's question whether it may be left.
	n.goTo(s.URL + "/leave")
	n.must("type", obj{"selector": "#i", "text": "unsaved"})
	n.must("handle-dialog", yes)
	if a := n.goTo(s.URL + "/"); a.m["url"] != s.URL+"/" || a.m["dialog"] != nil {
		t.Error(a.json, a.Evidence)
	}
}

// The list of tabs says which of them stands still, and why.
func TestTabsTellDialog(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button onclick="prompt('name?','Ada')">P</button>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "button"})
	n.must("tabs", obj{"action": "new"})
	tab := func(a answer, i int) answer { return answer{m: a.m["tabs"].([]any)[i].(obj)} }
	a := n.must("tabs", obj{})
	if dialogOf(tab(a, 0)) != "prompt:name?:Ada" || tab(a, 1).m["dialog"] != nil {
		t.Error(a.json)
	}
	a = n.must("tabs", obj{"action": "select", "index": 0})
	if dialogOf(tab(a, 0)) != "prompt:name?:Ada" {
		t.Error(a.json)
	}
	n.must("handle-dialog", obj{"accept": true})
	if a := n.must("tabs", obj{}); tab(a, 0).m["dialog"] != nil {
		t.Error(a.json)
	}
}

// A dialog of a page that is opened is named as one of an action is.
func TestNavigationNamesTheDialog(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html("<script>alert(1)</script>")})
	n := newNode(t, s.URL)
	if a := n.goTo(s.URL + "/"); !strings.Contains(a.Evidence, "opened an alert dialog") {
		t.Error(a.Evidence)
	}
}
