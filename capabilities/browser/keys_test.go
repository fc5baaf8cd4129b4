//go:build linux

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

func TestParseChord(t *testing.T) {
	for _, tc := range []struct {
		in    string
		with  []string
		name  string
		code  string
		text  string
		held  int64
		wrong bool
	}{
		{in: "Enter", name: "Enter", code: "Enter", text: "\r"},
		{in: "enter", name: "Enter", code: "Enter", text: "\r"},
		{in: "Esc", name: "Escape", code: "Escape"},
		{in: "a", name: "a", code: "KeyA", text: "a"},
		{in: "A", name: "A", code: "KeyA", text: "A", held: 8},
		{in: "Shift+a", name: "A", code: "KeyA", text: "A", held: 8},
		{in: "a", with: []string{"Shift"}, name: "A", code: "KeyA", text: "A", held: 8},
		{in: "Shift+1", name: "!", code: "Digit1", text: "!", held: 8},
		{in: "Control+Shift+K", name: "K", code: "KeyK", held: 10},
		{in: "Control+A", name: "a", code: "KeyA", held: 2},
		{in: "ctrl+c", name: "c", code: "KeyC", held: 2},
		{in: "k", with: []string{"Control", "Alt"}, name: "k", code: "KeyK", held: 3},
		{in: "+", name: "+", code: "Equal", text: "+", held: 8},
		{in: "Control++", name: "+", code: "Equal", held: 10},
		{in: "-", name: "-", code: "Minus", text: "-"},
		{in: " ", name: " ", code: "Space", text: " "},
		{in: "Space", name: " ", code: "Space", text: " "},
		{in: "KeyQ", name: "q", code: "KeyQ", text: "q"},
		{in: "Digit7", name: "7", code: "Digit7", text: "7"},
		{in: "Numpad7", name: "7", code: "Numpad7", text: "7"},
		{in: "NumpadEnter", name: "Enter", code: "NumpadEnter", text: "\r"},
		{in: "F12", name: "F12", code: "F12"},
		{in: "é", name: "é", text: "é"},
		{in: "日", name: "日", text: "日"},
		{in: "Shift", name: "Shift", code: "ShiftLeft"},
		{in: "ShiftRight", name: "Shift", code: "ShiftRight"},
		{in: "Meta+ArrowLeft", name: "ArrowLeft", code: "ArrowLeft", held: 4},
		{in: "Nope", wrong: true}, {in: "a+b", wrong: true}, {in: "", wrong: true}, {in: "Control+", name: "+", code: "Equal", held: 10}, {in: "\x01", wrong: true},
	} {
		got, err := parseChord(tc.in, tc.with)
		if (err != nil) != tc.wrong {
			t.Errorf("%q: %v", tc.in, err)
			continue
		}
		if err != nil {
			if capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
				t.Errorf("%q: %v", tc.in, err)
			}
			continue
		}
		if got.key.name != tc.name || got.key.code != tc.code || got.key.text != tc.text || got.held != tc.held {
			t.Errorf("%q: %+v, want %+v", tc.in, got, tc)
		}
	}
}

const keyPage = `<input id=i><script>
window.log = [];
for (const type of ['keydown', 'keypress', 'keyup']) addEventListener(type, e => {
	log.push([e.type, e.key, e.code, e.keyCode, e.location, [e.altKey, e.ctrlKey, e.metaKey, e.shiftKey].map(Number).join(''), e.isTrusted, e.repeat].join('|'));
	document.body.dataset.n = log.length; // something happens: the call need not wait
	if (/^F\d|^Browser|^Audio|^Media|Tab/.test(e.key)) e.preventDefault();
}, true);
</script>`

// Every key there is comes to the page as itself: its own name, code and key code,
// down and up, trusted.
func TestEveryKey(t *testing.T) { everyKey(t, 6, 10) }

func TestEveryKeyAtLength(t *testing.T) { everyKey(t, 1, 90) }

// everyKey presses every nth, by which more characters than that come.
func everyKey(t *testing.T, nth, characters int) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(keyPage)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.must("click", obj{"selector": "#i"})
	names := map[string]key{}
	for name, k := range namedKeys {
		names[name] = k
	}
	for name, k := range otherNames {
		names[name] = k
	}
	for r := rune(' '); r <= '~'; r++ {
		if k, ok := keyOf(r); ok {
			names[string(r)] = k
		} else {
			t.Errorf("no key for %q", r)
		}
	}
	var order []string
	for name := range names {
		order = append(order, name)
	}
	slices.Sort(order)
	for i := 0; i < len(order); i += nth {
		name := order[i]
		k := names[name]
		n.eval("log.length = 0; 1")
		n.must("press-key", obj{"key": name})
		var log []string
		raw, _ := json.Marshal(n.eval("log"))
		json.Unmarshal(raw, &log)
		what, err := parseChord(name, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		held := [4]int{}
		for i, bit := range []int64{1, 2, 4, 8} {
			if what.held&bit != 0 {
				held[i] = 1
			}
		}
		own := held
		if bit := modifierKeys[k.name].bit; bit != 0 {
			for i, b := range []int64{1, 2, 4, 8} {
				if b == bit {
					own[i] = 1
				}
			}
		}
		location := k.location
		line := func(kind string, held [4]int) string {
			return fmt.Sprintf("%s|%s|%s|%d|%d|%d%d%d%d|true|false", kind, k.name, k.code, k.virtual, location, held[0], held[1], held[2], held[3])
		}
		for _, want := range []string{line("keydown", own), line("keyup", held)} {
			if !slices.Contains(log, want) {
				t.Errorf("%s: no %q in %q", name, want, log)
			}
		}
		typed := slices.ContainsFunc(log, func(s string) bool { return strings.HasPrefix(s, "keypress|") })
		if typed != (k.text != "") {
			t.Errorf("%s: keypress %v, text %q", name, typed, k.text)
		}
	}
	if got := n.eval("i.value.length"); got.(float64) <= float64(characters) {
		t.Error("the field did not get the characters:", n.eval("i.value"))
	}
}

func TestPressKey(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=a value="hello world"><textarea id=b></textarea><button id=btn onclick="document.title='pressed'">B</button><input type=checkbox id=c>
<div id=menu tabindex=0 onkeydown="event.preventDefault();this.textContent=++k">0</div><div id=dead>x</div>
<div id=game tabindex=0>G</div><div style="height:3000px"></div>
<script>let k=0; game.onkeydown=e=>{e.preventDefault();game.t0=performance.now()}; game.onkeyup=e=>{game.dataset.held=performance.now()-game.t0}
document.addEventListener('keydown',e=>{ if(e.ctrlKey&&e.shiftKey&&e.key==='K'){document.title='chord '+e.code; e.preventDefault()}
 if(e.key==='F7'){document.title='  a   title '; history.pushState(0,'','/pushed?q=1#h')}})</script>`)})
	n.goTo(s.URL + "/")
	for _, tc := range []struct {
		name     string
		args     obj
		effect   capabilities.Effect
		evidence string
		check    string
		want     any
	}{
		{"space on a button", obj{"key": "Space", "selector": "#btn"}, "confirmed", "", "document.title", "pressed"},
		{"space on a box", obj{"key": " ", "selector": "#c"}, "confirmed", "value", "c.checked", true},
		{"chord", obj{"key": "Control+Shift+K"}, "confirmed", "", "document.title", "chord KeyK"},
		{"modifiers", obj{"key": "k", "modifiers": []string{"Shift", "Control"}, "selector": "#a"}, "", "", "document.title", "chord KeyK"},
		{"end", obj{"key": "End", "selector": "#a"}, "", "", "a.selectionStart", 11.0},
		{"home", obj{"key": "Home"}, "confirmed", "selection", "a.selectionStart", 0.0},
		{"select words", obj{"key": "Control+Shift+ArrowRight", "count": 1}, "confirmed", "", "getSelection().toString().trim()", "hello"},
		{"all", obj{"key": "Control+A"}, "confirmed", "", "a.selectionEnd - a.selectionStart", 11.0},
		{"copy", obj{"key": "Control+c"}, "confirmed", "copied", "a.value", "hello world"},
		{"paste elsewhere", obj{"key": "Control+v", "selector": "#b"}, "confirmed", "", "b.value", "hello world"},
		{"character", obj{"key": "é"}, "confirmed", "value", "b.value", "hello worldé"},
		{"count", obj{"key": "Backspace", "count": 3}, "confirmed", "", "b.value", "hello wor"},
		{"many arrows", obj{"key": "ArrowDown", "selector": "#menu", "count": 5}, "confirmed", "page changed", "menu.textContent", "5"},
		{"tab moves the focus", obj{"key": "Tab", "selector": "#a"}, "confirmed", "", "document.activeElement.id", "b"},
		{"back", obj{"key": "Shift+Tab"}, "confirmed", "", "document.activeElement.id", "a"},
		{"enter in an area", obj{"key": "Enter", "selector": "#b"}, "confirmed", "", "b.value.includes('\\n')", true},
		{"hold", obj{"key": "ArrowUp", "selector": "#game", "hold_ms": 120}, "confirmed", "", "game.dataset.held >= 120", true},
		{"address and title", obj{"key": "F7"}, "confirmed", "", "location.pathname", "/pushed"},
		{"nothing", obj{"key": "F9", "selector": "#btn"}, "suspected_noop", "nothing changed", "1", 1.0},
		{"scrolls", obj{"key": "PageDown", "selector": "#btn"}, "confirmed", "scroll", "1", 1.0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := *n
			n.t = t
			a := n.must("press-key", tc.args)
			if (tc.effect != "" && a.Effect != tc.effect) || !strings.Contains(a.Evidence, tc.evidence) {
				t.Errorf("%s (%s), want %s (%s)", a.Effect, a.Evidence, tc.effect, tc.evidence)
			}
			if got := n.eval(tc.check); got != tc.want {
				t.Errorf("%s is %v, want %v", tc.check, got, tc.want)
			}
			if url, title := n.eval("location.href"), n.eval("document.title"); a.m["url"] != url || (a.m["title"] != title && title != "") {
				t.Errorf("it says %v %q, the page %v %q", a.m["url"], a.m["title"], url, title)
			}
		})
	}
	n.refused(capabilities.CodeInvalidArguments, "press-key", obj{"key": "Hyper+X"})
	n.refused(capabilities.CodeElementNotFound, "press-key", obj{"key": "a", "selector": "#nope"})
	n.refused(capabilities.CodeExecutionFailed, "press-key", obj{"key": "a", "selector": "#dead"})
}

// A character that no key of a US keyboard types comes as from a keyboard that has it, or by
// an input method: a page that goes by keys sees both.
func TestCharactersOfOtherKeyboards(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=i><div id=ed contenteditable></div>
<script>window.log=[];for(const t of ['keydown','keypress','keyup','input'])addEventListener(t,e=>log.push(t==='input'?'input '+e.data:t+' '+e.key+' '+e.keyCode),true)</script>`)})
	n.goTo(s.URL + "/")
	const said = "log.splice(0).join(', ')"
	typed := func(c string, code int) string {
		return fmt.Sprintf("keydown %s 0, keypress %s %d, input %s, keyup %s 0", c, c, code, c, c)
	}
	composed := func(c string) string { return "keydown Process 229, input " + c + ", keyup Process 229" }
	n.checks([]check{
		{"é", "press-key", obj{"key": "é", "selector": "#i"}, "confirmed", "a value changed", said, typed("é", 'é')},
		{"漢", "press-key", obj{"key": "漢"}, "confirmed", "a value changed", said, composed("漢")},
		{"emoji", "press-key", obj{"key": "🙂"}, "confirmed", "a value changed", said, composed("🙂")},
		{"all", "evaluate", obj{"expression": "1"}, "", "", "i.value", "é漢🙂"},
		{"typed", "type", obj{"selector": "#i", "text": "пé漢", "slowly": true, "clear": true}, "confirmed", "the field holds the text", said, typed("п", 'п') + ", " + typed("é", 'é') + ", " + composed("漢")},
		{"short", "type", obj{"selector": "#i", "text": "ж", "clear": true}, "confirmed", "the field holds the text", said, typed("ж", 'ж')},
		{"family", "type", obj{"selector": "#ed", "text": "a👨‍👩‍👧é\tß", "slowly": true}, "confirmed", "the field holds the text", "log.length = 0; ed.textContent", "a👨‍👩‍👧é\tß"},
	})
	if e := n.refused(capabilities.CodeInvalidArguments, "press-key", obj{"key": "👨‍👩‍👧"}); !strings.Contains(e.Hint, "browser.type") {
		t.Error(e.Hint)
	}
}

// Keys do not reach the browser around the page: who presses them is told what does.
func TestKeysOfTheBrowser(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=i><script>addEventListener('keydown',e=>{if(e.key==='F3')document.title='mine';if(e.key==='F6')e.preventDefault()})</script>`)})
	n.goTo(s.URL + "/")
	n.eval("window.here = 1")
	var list []check
	for key, use := range map[string]string{
		"F5": "direction reload", "Shift+F5": "direction reload", "Control+R": "direction reload", "Control+Shift+r": "direction reload", "Meta+r": "direction reload",
		"Alt+Left": "back with tool.browser.navigate-back", "Alt+ArrowRight": "direction forward", "BrowserBack": "back with", "Control+t": "tool.browser.tabs", "Control+Shift+Tab": "tool.browser.tabs",
		"Control+L": "an address with tool.browser.navigate", "Control+f": "search",
	} {
		list = append(list, check{key, "press-key", obj{"key": key}, "suspected_noop", "the browser around it: ", "here", 1.0}, check{key, "press-key", obj{"key": key}, "", use, "", nil})
	}
	n.checks(append(list,
		check{"the page took it", "press-key", obj{"key": "F6"}, "unverifiable", "tool.browser.navigate", "", nil},
		check{"the page's own", "press-key", obj{"key": "F3"}, "confirmed", "the page changed", "", nil},
		check{"no shortcut", "press-key", obj{"key": "ArrowLeft"}, "suspected_noop", "nothing changed", "", nil},
	))
	if a := n.must("press-key", obj{"key": "ArrowLeft"}); strings.Contains(a.Evidence, "around") {
		t.Error(a.Evidence)
	}
}

// Chrome has one clipboard; lanes do not paste each other's.
func TestClipboardOfLanes(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<input id=a value="of the first"><textarea id=b></textarea><button onclick="document.title=1">B</button>
<button id=own onclick="navigator.clipboard.writeText('by the page').then(()=>{document.title='written'})">Own</button>`)})
	one := newNode(t, s.URL)
	two := one.on("lane-2")
	one.goTo(s.URL + "/")
	two.goTo(s.URL + "/")
	all := func(n *node) {
		n.must("press-key", obj{"selector": "#a", "key": "Control+a"})
		n.must("press-key", obj{"key": "Control+c"})
	}
	paste := func(n *node, key, want string) {
		t.Helper()
		n.eval("b.value=''; 1")
		n.must("press-key", obj{"selector": "#b", "key": key})
		if got := n.eval("b.value"); got != want {
			t.Errorf("%s pasted %q, want %q", n.lane, got, want)
		}
	}
	all(one)
	paste(one, "Control+v", "of the first")
	paste(two, "Control+v", "")
	two.eval("a.value='of the second'; 1")
	all(two)
	paste(one, "Shift+Insert", "of the first")
	paste(two, "Control+v", "of the second")
	one.must("click", obj{"selector": "#own"})
	one.until("the page's own copy", func() bool { return one.eval("document.title") == "written" })
	paste(two, "Control+v", "of the second")
	paste(two, "Control+v", "of the second")
	if out := one.must("press-key", obj{"selector": "#a", "key": "Control+c"}); strings.Contains(out.json+out.Evidence, "of the") {
		t.Error("what was copied is in the result:", out.json)
	}
}

// However long a text is, Chrome has few of its keys at a time, and gets no more of them
// once the call is over.
func TestKeysAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var open []string // IDs of what is not answered yet
		got := 0
		r, fromChrome := io.Pipe()
		conn := devtools.New(devtools.OverPipe(r, writerFunc(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			for m := range bytes.SplitSeq(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
				id, _, _ := strings.Cut(strings.TrimPrefix(string(m), `{"id":`), ",")
				open = append(open, id)
				got++
			}
			return len(b), nil
		})))
		var reader sync.WaitGroup
		reader.Go(func() { conn.Run(func(string, []byte) {}) })
		tab := &tab{s: conn.Root()}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, send := range map[string]func() error{
			"text": func() error {
				return keyboard{t: tab}.enter(ctx, nil, strings.Repeat("é a", 5000), entry{keys: true})
			},
			"rich text": func() error {
				return keyboard{t: tab}.enter(ctx, nil, strings.Repeat("line\n", 5000), entry{multiline: true, rich: true})
			},
			"count": func() error {
				c := &call{ctx: ctx, whole: ctx, tab: &laneTab{tab: tab}}
				_, err := c.strike(ctx, chord{key: namedKeys["ArrowDown"], held: shiftBit}, 5000, 0)
				return err
			},
		} {
			mu.Lock()
			open, got = nil, 0
			mu.Unlock()
			ctx, cancel = context.WithCancel(t.Context())
			var err error
			var sender sync.WaitGroup
			sender.Go(func() { err = send() })
			for range 5 {
				synctest.Wait()
				mu.Lock()
				first := open[:min(len(open), keysAhead)]
				if len(open) < keysAhead || len(open) > 2*keysAhead+2 { // a line's three go together
					t.Errorf("%s: Chrome has %d events at a time", name, len(open))
				}
				open = open[len(first):]
				mu.Unlock()
				for _, id := range first {
					io.WriteString(fromChrome, `{"id":`+id+`,"result":{}}`+"\x00")
				}
			}
			synctest.Wait()
			mu.Lock()
			before := got
			mu.Unlock()
			cancel()
			sender.Wait()
			synctest.Wait()
			if !errors.Is(err, context.Canceled) || got > before+2 { // a key and its modifier come up
				t.Errorf("%s: %d events after the end, %v", name, got-before, err)
			}
		}
		fromChrome.Close()
		reader.Wait()
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A call that is over types no further, and the page is free for the next one.
func TestTypingEnds(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<input id=i><script>let keys=0; i.onkeydown=()=>{ if(!keys++)fetch('/began'); for(const t=performance.now();performance.now()-t<5;); }</script>`)})
	n.goTo(s.URL + "/")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := n.inBackground(ctx, "type", obj{"selector": "#i", "text": strings.Repeat("x", 20000)})
	n.until("the first key", func() bool { return s.count("/began") > 0 })
	cancel()
	if _, err := wait(); err == nil || err.Code != capabilities.CodeCancelled {
		t.Error(err)
	}
	if got := n.eval("keys").(float64); got > 1000 {
		t.Errorf("the page got %v keys", got)
	}
}
