//go:build linux

package browser

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// check calls a tool and compares what it says with what the page shows.
type check struct {
	name, tool string
	args       obj
	effect     capabilities.Effect
	evidence   string // part of it
	look       string // an expression
	want       any
}

func (n *node) checks(list []check) {
	t := n.t.(*testing.T)
	t.Helper()
	for _, tc := range list {
		t.Run(tc.name, func(t *testing.T) {
			n := *n
			n.t = t
			a := n.must(tc.tool, tc.args)
			if (tc.effect != "" && a.Effect != tc.effect) || !strings.Contains(a.Evidence, tc.evidence) {
				t.Errorf("%s (%s), want %s (%s)", a.Effect, a.Evidence, tc.effect, tc.evidence)
			}
			if tc.look == "" {
				return
			}
			if got := n.eval(tc.look); got != tc.want {
				t.Errorf("%s is %v, want %v", tc.look, got, tc.want)
			}
		})
	}
}

// The parts of the page script share one scope, where a second function of a name
// silently replaces the first.
func TestPageScriptNames(t *testing.T) {
	from := map[string]string{}
	files, _ := filepath.Glob("page/*.js")
	if len(files) < 5 {
		t.Fatal("page scripts:", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^(?:async )?(?:function\*?|const|let) (\w+)`).FindAllStringSubmatch(string(text), -1) {
			if other := from[m[1]]; other != "" {
				t.Errorf("%s is declared in %s and %s", m[1], other, file)
			}
			from[m[1]] = file
		}
	}
}

// An expression that gives the names of the trusted events that a page noted.
const noted = "log.splice(0).join(' ')"

const noteEvents = `<script>window.log=[];function note(el,...types){for(const type of types)el.addEventListener(type,e=>{if(e.isTrusted)log.push(type)})}</script>`

func TestClickWays(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(noteEvents + `<style>body{margin:0}</style><button disabled style="position:absolute;left:20px;top:20px;width:80px;height:30px">Off</button>
<button id=mute style="position:absolute;left:120px;top:20px;width:80px;height:30px">Mute</button><script>for(const t of ['pointerdown','mousedown','pointerup','mouseup','click'])addEventListener(t,e=>{if(e.target.id==='mute'){e.stopImmediatePropagation();if(t==='click'&&window.tell)document.title='muted'}},true)</script><canvas id=cv width=400 height=200 style="position:absolute;left:20px;top:100px"></canvas>
<svg width=100 height=100 style="position:absolute;left:500px;top:100px"><circle id=ci cx=50 cy=50 r=30 onclick="document.title='circle'"/></svg>
<select id=sel style="position:absolute;left:800px;top:100px"><option id=opt>One<option>Two</select><button id=hold style="position:absolute;left:700px;top:100px">Hold</button><div id=pad style="position:absolute;left:20px;top:400px;width:200px;height:50px;background:#eee"></div>
<iframe id=fr style="position:absolute;left:300px;top:400px;margin:5px;border:4px solid;padding:3px" srcdoc="<body style=margin:0><button style='position:absolute;left:10px;top:10px' onclick=&quot;parent.document.title='in frame '+event.isTrusted&quot;>In</button>"></iframe>
<script>note(cv,'pointerdown','mousedown','pointerup','mouseup','click');
cv.onclick=e=>{document.title='canvas '+e.offsetX+','+e.offsetY};
hold.onmousedown=()=>{hold.t=performance.now()};hold.onmouseup=()=>{hold.n=(hold.n||0)+1;document.title='held '+(performance.now()-hold.t>=150)};
for(const t of ['mousedown','mousemove','mouseup'])pad.addEventListener(t,e=>{pad.textContent+=t[5]+e.buttons});</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"canvas by point", "click", obj{"x": 120, "y": 150}, "confirmed", "page changed", "document.title", "canvas 100,50"},
		{"event order", "evaluate", obj{"expression": "1"}, "", "", noted, "pointerdown mousedown pointerup mouseup click"},
		{"disabled, by point", "click", obj{"x": 60, "y": 35}, "suspected_noop", "", "1", 1.0},
		{"stopped before it came to us", "click", obj{"selector": "#mute"}, "unverifiable", "took the event", "1", 1.0},
		{"which then shows", "evaluate", obj{"expression": "tell = true"}, "", "", "1", 1.0},
		{"stopped, and something changed", "click", obj{"selector": "#mute"}, "confirmed", "page changed", "document.title", "muted"},
		{"svg shape", "click", obj{"x": 550, "y": 150}, "confirmed", "", "document.title", "circle"},
		{"hold", "click", obj{"selector": "#hold", "hold_ms": 150}, "confirmed", "", "document.title", "held true"},
		{"native list", "click", obj{"selector": "#sel"}, "", "", "1", 1.0},
		{"something else after it", "click", obj{"selector": "#hold", "hold_ms": 10}, "confirmed", "", "hold.n", 2.0},
		{"point in a frame", "click", obj{"x": 330, "y": 430}, "", "", "document.title", "in frame true"},
		{"down", "click", obj{"x": 50, "y": 420, "action": "down"}, "confirmed", "page changed", "pad.textContent.slice(-2)", "d1"},
		{"move with it", "hover", obj{"x": 80, "y": 420}, "confirmed", "", "pad.textContent.slice(-2)", "m1"},
		{"up", "click", obj{"x": 90, "y": 425, "action": "up"}, "confirmed", "page changed", "pad.textContent.slice(-2)", "u0"},
		{"nothing there", "click", obj{"x": 900, "y": 500}, "suspected_noop", "", "1", 1.0},
	})
	n.refused(capabilities.CodeInvalidArguments, "click", obj{"x": 5000, "y": 10})
	n.refused(capabilities.CodeInvalidArguments, "click", obj{"x": 50})
	n.refused(capabilities.CodeInvalidArguments, "click", obj{"x": 50, "y": 5, "selector": "#hold"})
	n.refused(capabilities.CodeInvalidArguments, "click", obj{})
	if e := n.refused(capabilities.CodeExecutionFailed, "click", obj{"selector": "#opt"}); !strings.Contains(e.Message, "select-option") {
		t.Error(e.Message)
	}
}

// A canvas shows what was drawn on it to nobody but who looks.
func TestCanvasTellsNothing(t *testing.T) {
	t.Parallel()
	const draws = `;const g=c.getContext('2d');for(const t of ['mousedown','mousemove','mouseup','wheel','keydown'])c.addEventListener(t,e=>{g.fillRect(++n%200,n%100,1,1)})`
	s, n := newPage(t, map[string]string{
		"/":     html(`<style>body{margin:0}canvas{display:block}</style><canvas id=c width=200 height=100 tabindex=0></canvas><button id=dead>Dead</button><canvas id=tell width=200 height=100></canvas><script>var n=0` + draws + `;tell.onclick=()=>document.title='told'</script>`),
		"/gl":   html(`<style>body{margin:0}canvas{display:block}</style><canvas id=c width=200 height=100 tabindex=0></canvas><script>var n=0;const g=c.getContext('webgl');for(const t of ['mousedown','keydown'])c.addEventListener(t,()=>{g&&(g.clearColor(1,0,0,1),g.clear(g.COLOR_BUFFER_BIT));n++})</script>`),
		"/wrap": html(`<style>body{margin:0}canvas{display:block;pointer-events:none}</style><div id=w style="position:relative;width:400px;height:100px;padding-left:200px" tabindex=0><canvas id=c width=200 height=100></canvas></div><script>var n=0;w.onmousedown=()=>c.getContext('2d').fillRect(++n,1,1,1);w.onkeydown=w.onmousedown</script>`),
	})
	n.goTo(s.URL + "/")
	const look = "a screenshot tells"
	n.checks([]check{
		{"click", "click", obj{"selector": "#c"}, "unverifiable", look, "n>0", true},
		{"by point", "click", obj{"x": 50, "y": 50}, "unverifiable", look, "", nil},
		{"down", "click", obj{"x": 50, "y": 50, "action": "down"}, "unverifiable", look, "", nil},
		{"up", "click", obj{"x": 60, "y": 50, "action": "up"}, "unverifiable", look, "", nil},
		{"drag", "drag", obj{"path": []obj{{"x": 30, "y": 30}, {"x": 60, "y": 40}, {"x": 90, "y": 40}}}, "unverifiable", look, "", nil},
		{"wheel", "hover", obj{"selector": "#c", "wheel_x": 20}, "unverifiable", look, "", nil},
		{"move", "hover", obj{"x": 90, "y": 90}, "confirmed", "the pointer is over it", "", nil},
		{"key", "press-key", obj{"selector": "#c", "key": "x"}, "unverifiable", look, "", nil},
		{"beside it", "click", obj{"selector": "#dead"}, "suspected_noop", "nothing changed", "", nil},
		{"what else changed counts", "click", obj{"selector": "#tell"}, "confirmed", "the page changed", "document.title", "told"},
	})
	n.goTo(s.URL + "/gl")
	n.checks([]check{
		{"webgl, click", "click", obj{"selector": "#c"}, "unverifiable", look, "n", 1.0},
		{"webgl, key", "press-key", obj{"key": "x"}, "unverifiable", look, "n", 2.0},
	})
	n.goTo(s.URL + "/wrap")
	n.checks([]check{
		{"a box that holds it", "click", obj{"x": 250, "y": 50}, "unverifiable", look, "n", 1.0},
		{"where the box has none", "click", obj{"x": 20, "y": 50}, "suspected_noop", "nothing changed", "n", 2.0},
		{"key in the box", "press-key", obj{"selector": "#w", "key": "x"}, "unverifiable", look, "n", 3.0},
	})
}

// A button that is down is not pressed: the call says so and does nothing, and the hold
// goes on.
func TestHeldButtonIsNotPressedAgain(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(noteEvents + `<style>body{margin:0}</style><div id=pad style="width:600px;height:300px">Pad <input type=checkbox id=box></div>
<script>note(document,'mousedown','mouseup')</script>`)})
	n.goTo(s.URL + "/")
	n.checks([]check{{"down", "click", obj{"x": 50, "y": 200, "action": "down"}, "", "", noted, "mousedown"}})
	for _, bad := range []struct {
		tool string
		args obj
	}{
		{"click", obj{"x": 60, "y": 200}},
		{"click", obj{"x": 60, "y": 200, "action": "down"}},
		{"drag", obj{"path": []obj{{"x": 60, "y": 200}, {"x": 90, "y": 210}}}},
	} {
		if e := n.refused(capabilities.CodeConflict, bad.tool, bad.args); !strings.Contains(e.Message, "left button is down") || !strings.Contains(e.Hint, "action up") {
			t.Errorf("%s %v: %v", bad.tool, bad.args, e)
		}
	}
	n.checks([]check{
		{"nothing was done", "hover", obj{"x": 70, "y": 200}, "", "", noted, ""},
		{"another button", "click", obj{"x": 70, "y": 200, "button": "middle"}, "", "", noted, "mousedown mouseup"},
		{"up", "click", obj{"x": 90, "y": 200, "action": "up"}, "", "", noted, "mouseup"},
		{"up again", "click", obj{"x": 90, "y": 200}, "", "", noted, "mousedown mouseup"},
	})
}

func TestHover(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>#m ul{display:none;position:absolute;z-index:1;background:#fff}#m:hover ul{display:block}</style><div id=m>Menu<ul><li><button id=item onclick="document.title='item'">Item</button></ul></div>
<button id=tip onmouseenter="out.textContent='tip '+event.isTrusted">Tip</button><p id=out></p>
<div id=box style="width:100px;height:100px;overflow:auto"><div style="height:1000px;width:900px">x</div></div><button id=plain>Plain</button><button id=dis disabled>Dis</button>
<div style="position:relative"><button id=cov>Cov</button><div id=lid style="position:absolute;inset:0;background:#eee">Lid</div></div><div style="height:3000px"></div><button id=far>Far</button>`)})
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"tooltip", "hover", obj{"selector": "#tip"}, "confirmed", "", "out.textContent", "tip true"},
		{"again", "hover", obj{"selector": "#tip"}, "confirmed", "", "tip.matches(':hover')", true},
		{"menu by style", "hover", obj{"selector": "#m"}, "confirmed", "", "getComputedStyle(m.querySelector('ul')).display", "block"},
		{"its item", "click", obj{"selector": "#item"}, "confirmed", "", "document.title", "item"},
		{"nothing listens", "hover", obj{"selector": "#plain"}, "confirmed", "over it", "plain.matches(':hover')", true},
		{"disabled can be hovered", "hover", obj{"selector": "#dis"}, "", "", "", nil},
		{"wheel down a box", "hover", obj{"selector": "#box", "wheel_y": 120}, "confirmed", "scrolled", "box.scrollTop", 120.0},
		{"wheel aside", "hover", obj{"selector": "#box", "wheel_x": 50}, "confirmed", "scrolled", "box.scrollLeft", 50.0},
		{"wheel the page", "hover", obj{"x": 600, "y": 300, "wheel_y": 400}, "confirmed", "scrolled", "scrollY", 400.0},
		{"wheel at the end", "hover", obj{"x": 600, "y": 300, "wheel_x": 400}, "suspected_noop", "", "scrollX", 0.0},
		{"far below", "hover", obj{"selector": "#far"}, "confirmed", "", "far.matches(':hover')", true},
	})
	err := n.refused(capabilities.CodeElementObscured, "hover", obj{"selector": "#cov"})
	if !strings.Contains(err.Message, "#lid") {
		t.Error(err.Message)
	}
}

const dragPage = `<style>body{margin:0}.c{position:absolute;width:80px;height:40px}</style>
<div id=src class=c draggable=true style="left:20px;top:20px;background:#cce">Card</div><div id=dst class=c style="left:300px;top:200px;background:#eec">Here</div>
<div id=no class=c draggable=true style="left:20px;top:80px;background:#ecc">Fixed</div><div id=deaf class=c style="left:500px;top:200px;background:#eee">Deaf</div>
<a id=link class=c href="/x" style="left:20px;top:140px">Link</a>
<input id=range type=range min=0 max=100 value=0 style="position:absolute;left:20px;top:300px;width:200px">
<canvas id=cv class=c width=200 height=100 style="left:20px;top:350px;width:200px;height:100px;background:#eee"></canvas>
<div id=pd class=c style="left:600px;top:20px;background:#cec;touch-action:none">Pointer</div><div id=slot class=c style="left:700px;top:300px;background:#fec">Slot</div>
<script>window.log=[];
for(const t of ['dragstart','drag','dragend'])src.addEventListener(t,e=>{if(t!=='drag'||!log.includes('drag'))log.push(t+(e.isTrusted?'':'!'));if(t==='dragstart'){e.dataTransfer.setData('text/plain','the card');e.dataTransfer.setData('application/x-own','{"n":1}')}if(t==='dragend')log.push(e.dataTransfer.dropEffect)});
for(const t of ['dragenter','dragover','dragleave','drop'])dst.addEventListener(t,e=>{if(t!=='dragover'||!log.includes('dragover'))log.push(t);e.preventDefault();if(t==='drop')dst.textContent=e.dataTransfer.getData('text/plain')+e.dataTransfer.getData('application/x-own')});
dst.addEventListener('dragover',e=>{e.dataTransfer.dropEffect='move'});
no.ondragstart=e=>e.preventDefault();
dst.addEventListener('drop',e=>{const u=e.dataTransfer.getData('text/uri-list');if(u)dst.textContent=u});
window.pts=[];let down=false;cv.onmousedown=e=>{down=true;pts.push([e.offsetX,e.offsetY])};cv.onmousemove=e=>{if(down)pts.push([e.offsetX,e.offsetY])};cv.onmouseup=e=>{down=false;document.title='drawn'};
let p0=null;pd.onpointerdown=e=>{p0=[e.clientX-pd.offsetLeft,e.clientY-pd.offsetTop];pd.setPointerCapture(e.pointerId)};
pd.onpointermove=e=>{if(p0){pd.style.left=e.clientX-p0[0]+'px';pd.style.top=e.clientY-p0[1]+'px'}};
pd.onpointerup=e=>{p0=null;const r=slot.getBoundingClientRect();slot.dataset.hit=e.clientX>=r.left&&e.clientX<=r.right&&e.clientY>=r.top&&e.clientY<=r.bottom};
</script>`

func TestDrag(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(dragPage)})
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"html5", "drag", obj{"source_selector": "#src", "target_selector": "#dst"}, "confirmed", "", "dst.textContent", `the card{"n":1}`},
		{"html5 event order", "evaluate", obj{"expression": "1"}, "", "", "log.join(' ')", "dragstart drag dragenter dragover drop dragend move"},
		{"link", "drag", obj{"source_selector": "#link", "target_selector": "#dst"}, "confirmed", "", "dst.textContent", s.URL + "/x"},
		{"refused by the page", "drag", obj{"source_selector": "#no", "target_selector": "#dst"}, "", "", "dst.textContent", s.URL + "/x"},
		{"target takes nothing", "drag", obj{"source_selector": "#src", "target_selector": "#deaf"}, "", "", "deaf.textContent", "Deaf"},
		{"slider", "drag", obj{"path": []obj{{"x": 28, "y": 308}, {"x": 120, "y": 308}, {"x": 200, "y": 308}}}, "confirmed", "", "range.value > 80", true},
		{"pointer events", "drag", obj{"source_selector": "#pd", "target_selector": "#slot"}, "confirmed", "", "slot.dataset.hit", "true"},
		{"canvas", "drag", obj{"path": []obj{{"x": 30, "y": 360}, {"x": 60, "y": 380}, {"x": 90, "y": 370}, {"x": 150, "y": 400}}}, "confirmed", "", "JSON.stringify(pts)", "[[10,10],[15,13],[40,30],[70,20],[130,50]]"},
		{"still works after", "click", obj{"selector": "#cv"}, "confirmed", "", "document.title", "drawn"},
		{"slowly", "drag", obj{"path": []obj{{"x": 30, "y": 360}, {"x": 60, "y": 380}}, "duration_ms": 150}, "confirmed", "", "1", 1.0},
	})
	if a := n.must("drag", obj{"source_selector": "#src", "target_selector": "#dst", "snapshot": "full"}); !strings.Contains(a.json, "the card") {
		t.Error(a.json)
	}
	if e := n.refused(capabilities.CodeElementNotFound, "drag", obj{"source_selector": "#src", "target_selector": "#nope"}); !strings.Contains(e.Message, "target") {
		t.Error(e.Message)
	}
	if e := n.refused(capabilities.CodeElementNotFound, "drag", obj{"source_selector": "#nope", "target_selector": "#dst"}); !strings.Contains(e.Message, "source") {
		t.Error(e.Message)
	}
	n.refused(capabilities.CodeInvalidArguments, "drag", obj{"source_selector": "#src"})
	n.refused(capabilities.CodeInvalidArguments, "drag", obj{"source_selector": "#src", "target_selector": "#dst", "path": []obj{{"x": 1, "y": 1}, {"x": 2, "y": 2}}})
}

// Scrolling to a target out of sight is ours; it is no effect of the drag.
func TestDragToNowhere(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>div{width:80px;height:40px;background:silver;user-select:none}</style><div id=src></div><p style="height:3000px"></p><div id=dst></div><p style="height:3000px"></p>`)})
	n.goTo(s.URL + "/")
	a := n.must("drag", obj{"source_selector": "#src", "target_selector": "#dst"})
	if y := n.eval("scrollY"); y == 0.0 {
		t.Fatal("the page was not scrolled to the target")
	}
	if a.Effect != capabilities.EffectSuspectNoop {
		t.Errorf("%s: %s", a.Effect, a.Evidence)
	}
}

func TestSelectOption(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<select id=one><option value=s>Small<option value=m selected>Medium<option value=l disabled>Large<optgroup disabled label=G><option>In group</optgroup></select>
<select id=many multiple><option>A<option>B<option>C</select><select id=off disabled><option>x</select><label>Pick <select id=lab><option>1<option>2</select></label>
<div id=custom role=combobox aria-haspopup=listbox tabindex=0>Choose</div><p id=p>no</p><select id=ask onchange="document.title=confirm('change?')"><option>a<option>b</select>
<select id=jump onchange="location='/next'"><option>a<option>b</select><select id=tall size=2><option selected>a<option>b</select>
<script>window.log=[];for(const t of ['input','change'])one.addEventListener(t,e=>log.push(t+one.value+(e.isTrusted?'':'!')))</script>`), "/next": html("next")})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"by value", "select-option", obj{"selector": "#one", "values": []string{"s"}}, "confirmed", "", "log.splice(0).join()", "inputs,changes"},
		{"by label", "select-option", obj{"selector": "#one", "values": []string{" medium "}}, "confirmed", "", "one.value", "m"},
		{"already", "select-option", obj{"selector": "#one", "values": []string{"m"}}, "confirmed", "already", "log.splice(0).join()", "inputm,changem"},
		{"several", "select-option", obj{"selector": "#many", "values": []string{"A", "C"}}, "confirmed", "", "[...many.selectedOptions].map(o=>o.text).join()", "A,C"},
		{"none", "select-option", obj{"selector": "#many", "values": []string{}}, "confirmed", "", "many.selectedOptions.length", 0.0},
		{"none of a box for one", "select-option", obj{"selector": "#tall", "values": []string{}}, "confirmed", "", "tall.selectedIndex", -1.0},
		{"by the label around", "select-option", obj{"selector": "label", "values": []string{"2"}}, "confirmed", "", "lab.value", "2"},
	})
	if a := n.must("select-option", obj{"selector": "#many", "values": []string{"B"}}); !strings.Contains(a.json, `"selected":["B"]`) {
		t.Error(a.json)
	}
	if e := n.refused(capabilities.CodeElementNotFound, "select-option", obj{"selector": "#one", "values": []string{"huge"}}); !strings.Contains(e.Message, `"Small", "Medium"`) {
		t.Error("the options are not named:", e.Message)
	}
	n.refused(capabilities.CodeElementDisabled, "select-option", obj{"selector": "#one", "values": []string{"l"}})
	n.refused(capabilities.CodeElementDisabled, "select-option", obj{"selector": "#one", "values": []string{"In group"}})
	n.refused(capabilities.CodeElementDisabled, "select-option", obj{"selector": "#off", "values": []string{"x"}})
	n.refused(capabilities.CodeInvalidArguments, "select-option", obj{"selector": "#one", "values": []string{"s", "m"}})
	if e := n.refused(capabilities.CodeInvalidArguments, "select-option", obj{"selector": "#one", "values": []string{}}); !strings.Contains(e.Message, "always holds one option") || n.eval("one.value") != "m" {
		t.Error(e)
	}
	n.refused(capabilities.CodeExecutionFailed, "select-option", obj{"selector": "#p", "values": []string{"s"}})
	if e := n.refused(capabilities.CodeExecutionFailed, "select-option", obj{"selector": "#custom", "values": []string{"s"}}); !strings.Contains(e.PublicHint(), "Click it to open it") {
		t.Error(e.Message, e.PublicHint())
	}
	a := n.must("select-option", obj{"selector": "#ask", "values": []string{"b"}})
	if a.m["dialog"] == nil {
		t.Error(a.json, a.Evidence)
	}
	n.must("handle-dialog", obj{"accept": true})
	if got := n.eval("document.title + ask.value"); got != "trueb" {
		t.Error(got)
	}
	a = n.must("select-option", obj{"selector": "#jump", "values": []string{"b"}})
	if a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.json, `"selected":["b"]`) || a.Evidence != "the options are selected; a new document was opened" || a.m["url"] != s.URL+"/next" {
		t.Errorf("a choice that makes the page leave: %s (%s) %s", a.Effect, a.Evidence, a.json)
	}
	if !strings.Contains(n.snap(), "next") {
		t.Error("the next call does not meet the new page")
	}
}

// A controlled input, as React makes it: the value lives in state; the element's
// own value property is tracked, and an input event whose value the tracker already
// knows is ignored; after each event the state is written back.
const controlled = `<script>
function control(el, accept = v => v) {
	const proto = Object.getPrototypeOf(el), own = Object.getOwnPropertyDescriptor(proto, 'value');
	let tracked = el.value, state = el.value;
	Object.defineProperty(el, 'value', {configurable: true, get() { return own.get.call(this) }, set(v) { tracked = '' + v; own.set.call(this, v) }});
	document.addEventListener('input', e => {
		if (e.target !== el) return;
		const v = own.get.call(el);
		if (v === tracked) return;
		tracked = v; state = accept(v);
		queueMicrotask(() => { if (own.get.call(el) !== state) el.value = state });
	});
	el.state = () => state;
}
</script>`

func TestFillForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(noteEvents + controlled + `<form id=f onsubmit="event.preventDefault()">
<input id=a value=old><input id=b type=email><textarea id=ta></textarea><input id=pw type=password><input id=n type=number><input id=d type=date><input id=dt type=datetime-local><input id=co type=color><input id=ra type=range min=0 max=10>
<input id=c type=checkbox><label><input id=hid type=checkbox style="position:absolute;opacity:0;width:0;height:0"> Styled</label><input type=radio name=r id=r1 value=1 checked><input type=radio name=r id=r2 value=2>
<select id=s><option value=1>One<option value=2>Two</select><select id=m multiple><option>A<option>B<option>C</select>
<div id=ce contenteditable>text</div><input id=re><input id=max maxlength=3><input id=up><input id=ro readonly value=x><input id=dis disabled><input id=keys><input id=mask>
<div id=sw role=switch aria-checked=false tabindex=0 onclick="this.setAttribute('aria-checked', this.getAttribute('aria-checked')!=='true')">Switch</div>
<div id=host></div><input type=file id=file><button id=btn>Go</button><input id=al oninput="alert('typed')"></form>
<script>note(a,'focus','beforeinput','input','change','blur');control(re);control(up,v=>v.toUpperCase());
let downs='';keys.onkeydown=e=>{if(e.isTrusted)downs+=e.key};
mask.onkeydown=e=>{e.preventDefault();if(/^\d$/.test(e.key))mask.value+=e.key; if(mask.value.length===2)mask.value+='-'};
note(c,'click','change');let changes=[];f.addEventListener('change',e=>changes.push(e.target.id));
host.attachShadow({mode:'open'}).innerHTML='<input id=sh aria-label=Shadowed>'</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	one := func(selector, value string) obj { return obj{"selector": selector, "value": value} }
	n.checks([]check{
		{"text", "fill-form", one("#a", "new"), "confirmed", "holds the value", "a.value", "new"},
		{"its events", "evaluate", obj{"expression": "1"}, "", "", noted, "focus input"},
		{"empty", "fill-form", one("#a", ""), "confirmed", "", "a.value", ""},
		{"unicode", "fill-form", one("#a", "Grüße 🙂"), "confirmed", "", "a.value", "Grüße 🙂"},
		{"email", "fill-form", one("#b", "x@y.z"), "confirmed", "", "b.value", "x@y.z"},
		{"lines", "fill-form", one("#ta", "one\r\ntwo"), "confirmed", "", "ta.value", "one\ntwo"},
		{"number", "fill-form", one("#n", "12.50"), "confirmed", "", "n.value", "12.50"},
		{"date", "fill-form", one("#d", "2026-02-03"), "confirmed", "", "d.value", "2026-02-03"},
		{"date and time", "fill-form", one("#dt", "2026-02-03T04:05"), "confirmed", "", "dt.value", "2026-02-03T04:05"},
		{"colour", "fill-form", one("#co", "#FF0080"), "confirmed", "", "co.value", "#ff0080"},
		{"range", "fill-form", one("#ra", "7"), "confirmed", "", "ra.value", "7"},
		{"range beyond", "fill-form", one("#ra", "70"), "partial", "", "ra.value", "10"},
		{"box", "fill-form", one("#c", "true"), "confirmed", "", "c.checked + log.splice(0).slice(-2).join()", "trueclick,change"},
		{"box again", "fill-form", one("#c", "true"), "confirmed", "", "c.checked + log.splice(0).join()", "true"},
		{"box off", "fill-form", one("#c", "false"), "confirmed", "", "c.checked", false},
		{"box that its page hides", "fill-form", one("#hid", "true"), "confirmed", "", "hid.checked", true},
		{"radio", "fill-form", one("#r2", "true"), "confirmed", "", "r2.checked", true},
		{"switch", "fill-form", one("#sw", "true"), "confirmed", "", "sw.getAttribute('aria-checked')", "true"},
		{"select by label", "fill-form", one("#s", "Two"), "confirmed", "", "s.value", "2"},
		{"select by value", "fill-form", one("#s", "1"), "confirmed", "", "s.value", "1"},
		{"multi-select", "fill-form", one("#m", "A\nC"), "confirmed", "", "[...m.selectedOptions].map(o=>o.text).join()", "A,C"},
		{"rich text", "fill-form", one("#ce", "first\nsecond"), "confirmed", "", "ce.innerText.replace(/\\n+/g,'|')", "first|second"},
		{"controlled", "fill-form", one("#re", "kept"), "confirmed", "", "re.value + re.state()", "keptkept"},
		{"controlled and changed", "fill-form", one("#up", "shout"), "partial", "", "up.state()", "SHOUT"},
		{"limited", "fill-form", one("#max", "abcdef"), "partial", "", "max.value", "abc"},
		{"listens to keys", "fill-form", one("#keys", "abc de"), "confirmed", "", "keys.value + downs", "abc deabc de"},
		{"lives by keys", "fill-form", one("#mask", "1234"), "partial", "", "mask.value", "12-34"},
	})
	a := n.must("fill-form", obj{"fields": []obj{one("#a", "1"), one("#b", "q@w.e"), one("#c", "true"), one("#s", "Two"), one("#ta", "t"), one("#pw", "hunter2!"), {"ref": n.ref("Shadowed"), "value": "deep"}}})
	if a.Effect != capabilities.EffectConfirmed || a.m["filled"] != 7.0 {
		t.Error(a.Effect, a.Evidence, a.json)
	}
	if got := n.eval("[a.value,b.value,c.checked,s.value,ta.value,pw.value=='hunter2!',host.shadowRoot.firstChild.value].join()"); got != "1,q@w.e,true,2,t,true,deep" {
		t.Error(got)
	}
	if got := n.eval("['a','b','c','s','ta','pw'].filter(id=>!changes.includes(id)).join()"); got != "" {
		t.Error("no change event at", got)
	}
	n.eval("a.value=b.value='';1")
	e := n.refused(capabilities.CodeElementDisabled, "fill-form", obj{"fields": []obj{one("#a", "x"), one("#dis", "secret-value"), one("#b", "y")}})
	if !strings.Contains(e.Message, "fields[1]") || !strings.Contains(e.Message, "other 2 fields") || strings.Contains(e.Message, "secret-value") {
		t.Error(e.Message)
	}
	if got := n.eval("a.value+b.value"); got != "xy" {
		t.Error("the others were not filled:", got)
	}
	for selector, want := range map[string]capabilities.Code{
		"#ro": capabilities.CodeElementDisabled, "#nope": capabilities.CodeElementNotFound, "#btn": capabilities.CodeExecutionFailed,
		"#file": capabilities.CodeExecutionFailed, "#d": capabilities.CodeInvalidArguments, "#n": capabilities.CodeInvalidArguments, "#c": capabilities.CodeInvalidArguments,
	} {
		n.refused(want, "fill-form", one(selector, "what"))
	}
	n.refused(capabilities.CodeInvalidArguments, "fill-form", one("#r2", "false"))
	n.refused(capabilities.CodeInvalidArguments, "fill-form", obj{"selector": "#a"})
	n.refused(capabilities.CodeInvalidArguments, "fill-form", obj{"selector": "#a", "value": "x", "fields": []obj{one("#b", "y")}})
	n.refused(capabilities.CodeInvalidArguments, "fill-form", obj{"fields": []obj{{"value": "x"}}})
	if a := n.must("fill-form", one("#al", "x")); a.m["dialog"] == nil || a.Effect != capabilities.EffectConfirmed {
		t.Error(a.json, a.Evidence)
	}
	n.must("handle-dialog", obj{"accept": true})
	if strings.Contains(n.log.String(), "hunter2!") || strings.Contains(n.snap(), "hunter2!") {
		t.Error("a password came out")
	}
}

// An action waits for what a link or form is bound to start, whatever the page's own
// names are; where nothing starts, it does not wait.
func TestClickThatLeaves(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<dialog id=d open><form method=dialog><button id=close>Close</button></form></dialog>
<form action=/next><input name=action type=hidden><input name=method type=hidden><input name=baseURI type=hidden><button id=send>Send</button></form>
<form action=/next target=_blank><button id=tab>In a tab</button></form><form method=post action=/next><button id=by formmethod=dialog>By button</button></form>
<form action="javascript:document.title='script'"><button id=script>Script</button></form><a id=blank href=/next target=_blank>Link</a><p id=host></p>
<script>host.attachShadow({mode:'closed'}).innerHTML='<form action=/next><button>Inner</button></form>'</script>`), "/next": html("next")})
	n := newNode(t, s.URL)
	for selector, want := range map[string]struct{ path, evidence string }{
		"#close": {"/", "form was submitted"}, "#by": {"/", "form was submitted"}, "#script": {"/", ""}, "#send": {"/next", "new document"},
		"#tab": {"/", "new tab"}, "#blank": {"/", "new tab"}, "inner": {"/next", "new document"},
	} {
		n.goTo(s.URL + "/")
		args := obj{"selector": selector}
		if selector == "inner" {
			args = obj{"ref": n.ref(`"Inner"`)}
		}
		a := n.must("click", args)
		if a.Effect != capabilities.EffectConfirmed || !strings.Contains(a.Evidence, want.evidence) || n.eval("location.pathname") != want.path {
			t.Errorf("%s: %s (%s) %s", selector, a.Effect, a.Evidence, a.json)
		}
	}
}

func TestUploadFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<input type=file id=one><input type=file id=many multiple style="display:none"><label for=many id=lab>Attach</label><button id=open onclick="many.click()">Open</button>
<button id=made onclick="const i=document.createElement('input');i.type='file';i.onchange=async()=>{out.textContent='made '+await i.files[0].text()};i.click()">Made</button>
<input type=file id=eager onchange="names=this.files[0].name;this.value=''"><p id=out></p>
<script>window.log=[];let names='';for(const i of [one,many])for(const t of ['input','change'])i.addEventListener(t,e=>log.push(t+e.isTrusted))</script>`), "/next": html("next")})
	o, log := options(t, s.URL)
	root, other := t.TempDir(), t.TempDir()
	alias := filepath.Join(t.TempDir(), "alias")
	if err := os.Symlink(root, alias); err != nil {
		t.Fatal(err)
	}
	o.UploadRoots = []string{alias} // the owner's own link is the owner's matter
	write := func(dir, name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := write(root, "report.txt", "the report")
	write(root, "sub/zwei ü.txt", "second")
	outside := write(other, "secret.txt", "outside")
	for link, to := range map[string]string{"out": outside, "outdir": other, "in": "report.txt"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	n := &node{t: t, h: h, lane: "lane-1", log: log}
	n.goTo(s.URL + "/")
	read := "(async()=>{const l=[];for(const f of [...one.files,...many.files])l.push(f.name+'='+await f.text());return l.join()})()"
	n.checks([]check{
		{"relative", "upload-file", obj{"selector": "#one", "paths": []string{"report.txt"}}, "confirmed", "holds", read, "report.txt=the report"},
		{"its events", "evaluate", obj{"expression": "1"}, "", "", "log.splice(0).join()", "inputtrue,changetrue"},
		{"full path", "upload-file", obj{"selector": "#one", "paths": []string{full}}, "confirmed", "", read, "report.txt=the report"},
		{"full path as the owner wrote it", "upload-file", obj{"selector": "#one", "paths": []string{filepath.Join(alias, "report.txt")}}, "confirmed", "", read, "report.txt=the report"},
		{"link inside", "upload-file", obj{"selector": "#one", "paths": []string{"in"}}, "confirmed", "", read, "in=the report"},
		{"hidden input by its label", "upload-file", obj{"selector": "#lab", "paths": []string{"report.txt", "sub/zwei ü.txt"}}, "confirmed", "", read, "in=the report,report.txt=the report,zwei ü.txt=second"},
		{"a page that empties its input", "upload-file", obj{"selector": "#eager", "paths": []string{"report.txt"}}, "unverifiable", "handed to the page", "names", "report.txt"},
		{"chooser opens", "click", obj{"selector": "#open"}, "confirmed", "file chooser", "1", 1.0},
		{"chooser answered", "upload-file", obj{"paths": []string{"report.txt"}}, "confirmed", "", "many.files.length", 1.0},
		{"chooser of no element in the page", "click", obj{"selector": "#made"}, "confirmed", "file chooser", "1", 1.0},
		{"answered too", "upload-file", obj{"paths": []string{"report.txt"}}, "confirmed", "", "new Promise(f=>{const g=()=>out.textContent?f(out.textContent):setTimeout(g,5);g()})", "made the report"},
	})
	if a := n.must("upload-file", obj{"selector": "#one", "paths": []string{"report.txt"}}); a.json != `{"uploaded":1}` {
		t.Error(a.json)
	}
	n.refused(capabilities.CodeExecutionFailed, "upload-file", obj{"paths": []string{"report.txt"}}) // answered already
	for path, want := range map[string]capabilities.Code{
		"out": capabilities.CodeDeniedByNode, "outdir/secret.txt": capabilities.CodeDeniedByNode, "../secret.txt": capabilities.CodeDeniedByNode, outside: capabilities.CodeDeniedByNode,
		"/etc/passwd": capabilities.CodeDeniedByNode, "/dev/zero": capabilities.CodeDeniedByNode, "pipe": capabilities.CodeInvalidArguments, "sub": capabilities.CodeInvalidArguments,
		"missing.txt": capabilities.CodeNotFound,
	} {
		if e := n.refused(want, "upload-file", obj{"selector": "#one", "paths": []string{path}}); !strings.Contains(e.Message, "paths[0]") {
			t.Error(e.Message)
		}
	}
	n.refused(capabilities.CodeInvalidArguments, "upload-file", obj{"selector": "#one", "paths": []string{"report.txt", "in"}})
	n.refused(capabilities.CodeExecutionFailed, "upload-file", obj{"selector": "#open", "paths": []string{"report.txt"}})
	// A chooser goes with its page.
	n.must("click", obj{"selector": "#open"})
	n.goTo(s.URL + "/next")
	n.refused(capabilities.CodeExecutionFailed, "upload-file", obj{"paths": []string{"report.txt"}})
	// The copies go with the lane.
	staged := filepath.Join(n.process().Program.Scratch(), stagedDir)
	if left, _ := filepath.Glob(staged + "/*/*/*/*"); len(left) < 5 {
		t.Fatal("no copies below", staged)
	}
	n.must("close", obj{})
	if left, _ := filepath.Glob(staged + "/*"); len(left) != 0 {
		t.Error("copies are left:", left)
	}
}

func TestUploadRefusedWithoutRoots(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.goTo("data:text/html,<input type=file>")
	n.refused(capabilities.CodeDeniedByNode, "upload-file", obj{"selector": "input", "paths": []string{"/etc/hostname"}})
}

func TestTypeWays(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(controlled + `<input id=re><input id=up><input id=plain><div id=ce contenteditable></div><div id=ed contenteditable></div><textarea id=ta></textarea><label id=lab>Name <input id=in></label>
<input id=comp><input id=far style="margin-top:2000px"><input id=told><input id=before><input id=max maxlength=5><input id=num type=number><div id=sh></div>
<script>control(re);control(up,v=>v.toUpperCase());let n=0,ups=0;for(const t of ['input','change'])told.addEventListener(t,e=>window.said=(window.said||'')+t+e.isTrusted+e.inputType+e.data+' ');
before.addEventListener('beforeinput',e=>{if(e.data)before.data=e.data});sh.attachShadow({mode:'open'}).innerHTML='<input id=deep>';plain.addEventListener('input',()=>n++);
ed.addEventListener('beforeinput',e=>{window.kinds=(window.kinds||'')+e.inputType+e.isTrusted+' '});
comp.addEventListener('keyup',()=>ups++);comp.addEventListener('input',e=>{comp.trusted=(comp.trusted??true)&&e.isTrusted})</script>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	const long = "twenty characters .."
	n.checks([]check{
		{"controlled", "type", obj{"selector": "#re", "text": long}, "confirmed", "", "re.value + '|' + re.state()", long + "|" + long},
		{"controlled and changed", "type", obj{"selector": "#up", "text": "shout out"}, "partial", "", "up.state()", "SHOUT OUT"},
		{"one piece where nothing listens", "type", obj{"selector": "#plain", "text": long}, "confirmed", "", "n", 1.0},
		{"slowly: key by key", "type", obj{"selector": "#plain", "text": "slow", "slowly": true}, "confirmed", "", "n", 5.0},
		{"slowly and long", "type", obj{"selector": "#plain", "text": long, "slowly": true, "clear": true}, "confirmed", "", "n + plain.value", "25" + long},
		{"keys where something listens", "type", obj{"selector": "#comp", "text": long}, "confirmed", "", "ups + ' ' + comp.trusted", "20 true"},
		{"rich text", "type", obj{"selector": "#ce", "text": "first line\nsecond line"}, "confirmed", "", "ce.innerText.replace(/\\n+/g,'|')", "first line|second line"},
		{"an editor sees what it needs", "type", obj{"selector": "#ed", "text": "first line\nsecond line"}, "confirmed", "", "kinds", "insertTexttrue insertParagraphtrue insertTexttrue "},
		{"area", "type", obj{"selector": "#ta", "text": "first line\nsecond line"}, "confirmed", "", "ta.value", "first line\nsecond line"},
		{"its event", "type", obj{"selector": "#told", "text": long}, "confirmed", "", "said", "inputtrueinsertText" + long + " "},
		{"change comes with the end", "press-key", obj{"selector": "#told", "key": "Enter"}, "", "", "said.split(' ').includes('changetrueundefinedundefined')", true},
		{"before it is made", "type", obj{"selector": "#before", "text": long}, "confirmed", "", "before.data", long},
		{"what it takes", "type", obj{"selector": "#max", "text": long}, "partial", "", "max.value", long[:5]},
		{"a number", "type", obj{"selector": "#num", "text": "1234567"}, "confirmed", "", "num.value", "1234567"},
		{"in a shadow root", "type", obj{"selector": "#deep", "text": long}, "confirmed", "", "sh.shadowRoot.activeElement.value", long},
		{"taken back", "press-key", obj{"key": "Control+z"}, "", "", "sh.shadowRoot.activeElement.value", ""},
		{"by its label", "type", obj{"selector": "#lab", "text": "Ada"}, "confirmed", "", "document.querySelector('#in').value", "Ada"},
		{"far below", "type", obj{"selector": "#far", "text": "down here"}, "confirmed", "", "far.value", "down here"},
	})
	// Somewhere else in the page, something begins to listen.
	n.eval("window.downs=0;addEventListener('keydown',()=>downs++);1")
	n.must("type", obj{"selector": "#plain", "text": long, "clear": true})
	if got := n.eval("downs"); got != 20.0 {
		t.Error("keys that the window saw:", got)
	}
	a := n.must("type", obj{"selector": "#plain", "text": "x", "snapshot": "full"})
	if !strings.Contains(a.json, long+"x") {
		t.Error(a.json)
	}
}

// Lists that mark what was pressed, and let it be dragged only once the pointer rested.
func TestDragAfterARest(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<style>li{height:34px;border:1px solid;list-style:none}</style><ul id=l style="width:200px;padding:0"><li>A<li>B<li>C<li>D</ul><p id=slight style="width:80px;height:30px">Marked</p><script>
let timer, from, held, presses = 0;
const order = () => [...l.children].map(x => x.textContent).join('');
for (const x of l.children) {
	x.onpointerdown = e => { x.style.willChange = 'all'; x.draggable = false; from = [e.clientX, e.clientY]; timer = setTimeout(() => { x.draggable = true; x.classList.add('chosen'); }, 300); };
	x.onpointermove = e => { if (from && Math.hypot(e.clientX - from[0], e.clientY - from[1]) > 4) clearTimeout(timer); };
	x.onpointerup = () => { clearTimeout(timer); from = null; x.style.willChange = ''; };
	x.ondragstart = () => { held = x; };
	x.ondragover = e => { e.preventDefault(); if (held && x !== held) l.insertBefore(held, [...l.children].indexOf(held) < [...l.children].indexOf(x) ? x.nextSibling : x); };
	x.ondragend = () => { held = null; x.classList.remove('chosen'); };
}
l.ondrop = e => e.preventDefault();
slight.onpointerdown = () => { presses++; slight.className = 'on' + presses; };
</script>`)})
	n.goTo(s.URL + "/")
	n.checks([]check{
		{"held first", "drag", obj{"source_selector": "li:nth-child(1)", "target_selector": "li:nth-child(3)"}, "confirmed", "held still", "order()", "BCAD"},
		{"and slowly", "drag", obj{"source_selector": "li:nth-child(4)", "target_selector": "li:nth-child(2)", "duration_ms": 1000}, "confirmed", "held still", "order()", "BDCA"},
		{"what only marks itself", "drag", obj{"source_selector": "#slight", "target_selector": "li:nth-child(1)"}, "unverifiable", "stayed where it is", "order()", "BDCA"},
	})
}
