package browser

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// key is one key of the keyboard, as DOM events describe it.
type key struct {
	name, code string
	virtual    int64  // Windows virtual key code: keyCode
	text       string // what it types, empty for keys that type nothing
	shift      bool   // it takes Shift to give this name
	location   int64  // 1 left, 2 right, 3 keypad
}

// modifierKeys are those that change what others mean, with the protocol's bits.
var modifierKeys = map[string]struct {
	bit int64
	key key
}{
	"Alt":     {1, key{name: "Alt", code: "AltLeft", virtual: 18, location: 1}},
	"Control": {2, key{name: "Control", code: "ControlLeft", virtual: 17, location: 1}},
	"Meta":    {4, key{name: "Meta", code: "MetaLeft", virtual: 91, location: 1}},
	"Shift":   {8, key{name: "Shift", code: "ShiftLeft", virtual: 16, location: 1}},
}

// modifierOrder is the order in which they go down; they come up the other way.
var modifierOrder = []string{"Control", "Alt", "Shift", "Meta"}

const shiftBit = 8

// modifiers returns the protocol's bits.
func modifiers(names []string) (bits int64) {
	for _, name := range names {
		bits |= modifierKeys[name].bit
	}
	return bits
}

// namedKeys are the keys that are called by a name, by the names of the UI Events
// specification. The codes are chromedp's, but for modifiers (it has the codes of the
// left-hand keys, pages see those of either) and AltGraph, which it lacks.
var namedKeys = func() map[string]key {
	all := map[string]key{
		"AltGraph": {name: "AltGraph", code: "AltRight", virtual: 18, location: 2},
	}
	for name, m := range modifierKeys {
		all[name] = m.key
	}
	names := strings.Fields(`Enter Tab Escape Backspace Delete Insert Home End PageUp PageDown ArrowLeft ArrowUp ArrowRight ArrowDown
		CapsLock NumLock ScrollLock Pause PrintScreen ContextMenu Help Clear BrowserBack BrowserForward BrowserRefresh BrowserSearch
		AudioVolumeMute AudioVolumeDown AudioVolumeUp MediaTrackNext MediaTrackPrevious MediaStop MediaPlayPause`)
	for i := range 24 {
		names = append(names, "F"+strconv.Itoa(i+1))
	}
	for _, k := range kb.Keys {
		if slices.Contains(names, k.Key) {
			all[k.Key] = key{name: k.Key, code: k.Code, virtual: k.Windows, text: k.Text}
		}
	}
	return all
}()

// otherNames are what callers also say, in lower case. Codes of the keypad and of
// the right-hand keys are here too: they are names for a place on the keyboard.
var otherNames = func() map[string]key {
	all := map[string]key{}
	for name, k := range namedKeys {
		all[strings.ToLower(name)] = k
	}
	for other, name := range map[string]string{
		"esc": "Escape", "del": "Delete", "ins": "Insert", "return": "Enter", "pgup": "PageUp", "pgdn": "PageDown", "pagedn": "PageDown",
		"left": "ArrowLeft", "up": "ArrowUp", "right": "ArrowRight", "down": "ArrowDown", "ctrl": "Control", "cmd": "Meta",
		"command": "Meta", "super": "Meta", "win": "Meta", "windows": "Meta", "option": "Alt", "opt": "Alt", "menu": "ContextMenu",
		"altleft": "Alt", "controlleft": "Control", "metaleft": "Meta", "shiftleft": "Shift", "altgr": "AltGraph",
	} {
		all[other] = namedKeys[name]
	}
	for _, name := range modifierOrder {
		k := modifierKeys[name].key
		k.code, k.location = name+"Right", 2
		if name == "Meta" {
			k.virtual = 92
		}
		all[strings.ToLower(name)+"right"] = k
	}
	for r := ' '; r <= '~'; r++ {
		if k, ok := keyOf(r); ok && !k.shift {
			all[strings.ToLower(k.code)] = k
		}
	}
	all["spacebar"] = all["space"]
	all["plus"], _ = keyOf('+')
	for i := range 10 {
		digit := strconv.Itoa(i)
		all["numpad"+digit] = key{name: digit, code: "Numpad" + digit, virtual: 96 + int64(i), text: digit, location: 3}
	}
	for _, k := range []key{
		{name: "*", code: "NumpadMultiply", virtual: 106, text: "*"}, {name: "+", code: "NumpadAdd", virtual: 107, text: "+"},
		{name: "-", code: "NumpadSubtract", virtual: 109, text: "-"}, {name: ".", code: "NumpadDecimal", virtual: 110, text: "."},
		{name: "/", code: "NumpadDivide", virtual: 111, text: "/"}, {name: "Enter", code: "NumpadEnter", virtual: 13, text: "\r"},
	} {
		k.location = 3
		all[strings.ToLower(k.code)] = k
	}
	return all
}()

// keyOf returns the key that types r on a US keyboard.
func keyOf(r rune) (key, bool) {
	k := kb.Keys[r]
	if k == nil || r < ' ' || r > '~' { // others are names, and keys of other keyboards
		return key{}, false
	}
	return key{name: k.Key, code: k.Code, virtual: k.Windows, text: k.Text, shift: k.Shift}, true
}

// chord is a key with the modifiers that are held meanwhile.
type chord struct {
	key  key
	held int64
}

// parseChord reads "Control+Shift+K", "F5", "a" or "Control++".
func parseChord(s string, with []string) (chord, error) {
	held := modifiers(with)
	parts := strings.Split(s, "+")
	if len(s) > 0 && s[len(s)-1] == '+' {
		// The plus key itself, alone or at the end of a chord.
		parts = append(strings.Split(strings.TrimSuffix(s[:len(s)-1], "+"), "+"), "+")
		if s == "+" {
			parts = []string{"+"}
		}
	}
	for _, name := range parts[:len(parts)-1] {
		name = strings.TrimSpace(name)
		if strings.EqualFold(name, "ControlOrMeta") || strings.EqualFold(name, "CommandOrControl") || strings.EqualFold(name, "Mod") {
			name = "Control"
			if runtime.GOOS == "darwin" {
				name = "Meta"
			}
		}
		bit := modifierKeys[otherNames[strings.ToLower(name)].name].bit
		if bit == 0 {
			return chord{}, badKey(name, "is no modifier")
		}
		held |= bit
	}
	last := parts[len(parts)-1]
	if trimmed := strings.TrimSpace(last); trimmed != "" {
		last = trimmed
	}
	k, ok := otherNames[strings.ToLower(last)]
	if utf8.RuneCountInString(last) == 1 {
		r, _ := utf8.DecodeRuneInString(last)
		if held&^shiftBit != 0 && r >= 'A' && r <= 'Z' {
			r += 'a' - 'A' // Control+A names the key; Shift is said by its own name
		}
		if k, ok = keyOf(r); !ok && r >= ' ' {
			// No key of this keyboard has it: it comes as other layouts would give it.
			k, ok = key{name: last, text: last}, true
		}
	}
	if !ok {
		return chord{}, badKey(last, "is no key")
	}
	if held&shiftBit != 0 && !k.shift && k.location != 3 {
		k = k.shifted()
	}
	if k.shift {
		held |= shiftBit
	}
	if held&^shiftBit != 0 && k.name != "Enter" {
		k.text = "" // a shortcut types nothing
	}
	return chord{k, held}, nil
}

// shifted is the same key under Shift.
func (k key) shifted() key {
	if len(k.text) != 1 || k.code == "" {
		return k
	}
	for r := '!'; r <= '~'; r++ {
		if up, ok := keyOf(r); ok && up.shift && up.code == k.code {
			return up
		}
	}
	return k
}

// composed reports that the key stands for a character which no keyboard has: from
// U+2E80 on are the scripts of input methods, and emoji. The page sees of the key itself
// only that something is composed.
func (k key) composed() bool {
	r, _ := utf8.DecodeRuneInString(k.name)
	return k.code == "" && (r >= 0x2E80 || r == 0x200D || unicode.IsMark(r))
}

var composing = key{name: "Process", virtual: 229}

// browsers are the shortcuts of browsers themselves, without Shift, with what does the
// same here. Keys that are sent to a page do not reach the browser around it.
var browsers = [...]struct{ keys, use string }{
	{" f5 mod+f5 mod+r browserrefresh ", "reload with tool.browser.navigate-back, direction reload"},
	{" alt+arrowleft browserback ", "go back with tool.browser.navigate-back"},
	{" alt+arrowright browserforward ", "go forward with tool.browser.navigate-back, direction forward"},
	{" mod+t mod+n mod+w mod+f4 mod+tab mod+pageup mod+pagedown ", "open, close and choose tabs with tool.browser.tabs"},
	{" mod+l f6 alt+d ", "open an address with tool.browser.navigate"},
	{" mod+f f3 ", "search the page with tool.browser.snapshot and its argument search"},
}

// elsewhere says how to do what the keys do to a browser; empty where they do nothing.
func (what chord) elsewhere() string {
	name := strings.ToLower(what.key.name)
	if what.held&(2|4) != 0 {
		name = "mod+" + name
	}
	if what.held&1 != 0 {
		name = "alt+" + name
	}
	for _, b := range browsers {
		if strings.Contains(b.keys, " "+name+" ") {
			return b.use
		}
	}
	return ""
}

func badKey(name, what string) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, "key: %q %s.", capabilities.Clip(name, 40), what).
		WithHint("Give a name such as Enter, Escape, ArrowDown, F5, one character, or a chord such as Control+Shift+K; text goes in with " +
			"tool.browser.type.")
}

// commands are the editing commands that a Mac's menu would carry out for these
// shortcuts; elsewhere the page's own editor knows them.
var commands = map[string]string{
	"a": "selectAll", "c": "copy", "v": "paste", "x": "cut", "z": "undo",
}

// keyboard sends keys to a tab.
type keyboard struct {
	t *tab
	// mac says whose shortcuts the browser knows.
	mac bool
}

func (c *call) keyboard() keyboard { return keyboard{c.tab.tab, runtime.GOOS == "darwin"} }

func (b keyboard) send(ctx context.Context, kind input.DispatchKeyEventType, k key, held int64) *devtools.Pending {
	p := input.DispatchKeyEventParams{
		Type: kind, Key: k.name, Code: k.code, WindowsVirtualKeyCode: k.virtual, Modifiers: held, Location: k.location,
	}
	if k.location == 3 {
		p.IsKeypad, p.Location = ptr(true), 0
	}
	if kind != input.DispatchKeyEventTypeKeyUp {
		if p.Text, p.UnmodifiedText = k.text, k.text; k.text == "" {
			p.Type = input.DispatchKeyEventTypeRawKeyDown
		}
		if name := commands[strings.ToLower(k.name)]; b.mac && held&^shiftBit == 4 && name != "" {
			if name == "undo" && held&shiftBit != 0 {
				name = "redo"
			}
			p.Commands = []string{name}
		}
	}
	return devtools.Start(ctx, b.t.s, input.DispatchKeyEvent, p).Pending
}

func (b keyboard) insert(ctx context.Context, text string) *devtools.Pending {
	return devtools.Start(ctx, b.t.s, input.InsertText, input.InsertTextParams{Text: text}).Pending
}

func (b keyboard) down(ctx context.Context, k key, held int64) *devtools.Pending {
	if k.composed() {
		p := b.send(ctx, input.DispatchKeyEventTypeKeyDown, composing, held)
		if k.text != "" {
			p = b.insert(ctx, k.text)
		}
		return p
	}
	return b.send(ctx, input.DispatchKeyEventTypeKeyDown, k, held)
}

func (b keyboard) up(ctx context.Context, k key, held int64) *devtools.Pending {
	if k.composed() {
		k = composing
	}
	return b.send(ctx, input.DispatchKeyEventTypeKeyUp, k, held)
}

// press queues one key, with Shift where it needs it but without Shift's own
// events: text is typed this way.
func (b keyboard) press(ctx context.Context, sent []*devtools.Pending, k key) []*devtools.Pending {
	var held int64
	if k.shift {
		held = shiftBit
	}
	return append(sent, b.down(ctx, k, held), b.up(ctx, k, held))
}

// empty queues the keys that empty an editor which only its own keys reach.
func (b keyboard) empty(ctx context.Context, sent []*devtools.Pending) []*devtools.Pending {
	control := modifierKeys["Control"]
	if b.mac {
		control = modifierKeys["Meta"]
	}
	a, _ := keyOf('a')
	a.text = ""
	sent = append(sent, b.down(ctx, control.key, control.bit), b.down(ctx, a, control.bit), b.up(ctx, a, control.bit),
		b.up(ctx, control.key, 0))
	return b.press(ctx, sent, namedKeys["Backspace"])
}

// toEnd takes the caret of an editor to the end of what it holds.
func (b keyboard) toEnd(ctx context.Context, sent []*devtools.Pending) []*devtools.Pending {
	control, end := modifierKeys["Control"], namedKeys["End"]
	if b.mac {
		control, end = modifierKeys["Meta"], namedKeys["ArrowDown"]
	}
	return append(sent, b.down(ctx, control.key, control.bit), b.down(ctx, end, control.bit), b.up(ctx, end, control.bit),
		b.up(ctx, control.key, 0))
}

// entry says how a text goes in.
type entry struct {
	keys      bool // key by key, else in one piece
	multiline bool // line breaks are part of it
	rich      bool // an editor makes the line breaks
	// turns, unless nil, waits for the turn that a person leaves the page after each key.
	turns func(ctx context.Context)
}

// turnsUpTo bounds the texts, in characters, that leave the page its turns.
const turnsUpTo = 64

// turnsIn returns the turns of a field: one to which a list of proposals belongs opens and closes
// that in tasks of its own, for which keys that follow each other at once leave no time.
func turnsIn(w world, listed bool, text string) func(ctx context.Context) {
	if !listed || utf8.RuneCountInString(text) > turnsUpTo {
		return nil
	}
	return func(ctx context.Context) { _ = w.put(ctx, inpage.Tasks, map[string]bool{"timers": true}).get(ctx, nil) }
}

// keysAhead bounds what is sent of keys, in events, before Chrome has answered as many
// before them: what it has it works off, also when the call is over.
const keysAhead = 32

// turn waits until the page had its turn after what was sent.
func (how entry) turn(ctx context.Context, sent []*devtools.Pending) {
	if how.turns == nil || len(sent) == 0 {
		return
	}
	sent[len(sent)-1].Wait(ctx)
	how.turns(ctx)
}

// paced waits until Chrome has answered enough of what was sent for more to follow. Its
// error is the end of the call.
func paced(ctx context.Context, sent []*devtools.Pending) error {
	if n := len(sent)/keysAhead - 1; n > 0 {
		sent[n*keysAhead-1].Wait(ctx)
	}
	return ctx.Err()
}

// enter puts a text in behind what was sent, and waits for all.
func (b keyboard) enter(ctx context.Context, sent []*devtools.Pending, text string, how entry) error {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if !how.multiline {
		text = strings.ReplaceAll(text, "\n", "")
	}
	how.turn(ctx, sent)
	lines := []string{text}
	if how.keys || how.rich {
		lines = strings.Split(text, "\n")
	}
	for i, line := range lines {
		if i > 0 {
			sent = b.press(ctx, sent, namedKeys["Enter"])
		}
		if !how.keys && line != "" {
			sent = append(sent, b.insert(ctx, line))
			line = ""
		}
		for _, r := range line {
			k, ok := keyOf(r)
			switch {
			case ok:
				sent = b.press(ctx, sent, k)
			case unicode.IsControl(r):
				sent = append(sent, b.insert(ctx, string(r)))
			default: // as the keyboards that have it would give it
				sent = b.press(ctx, sent, key{name: string(r), text: string(r)})
			}
			how.turn(ctx, sent)
			if err := paced(ctx, sent); err != nil {
				return err
			}
		}
		if err := paced(ctx, sent); err != nil {
			return err
		}
	}
	for _, p := range sent {
		if _, err := p.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pressKey carries out tyrum.browser.press-key.
func pressKey(c *call) (capabilities.Output, error) {
	args := struct {
		Key       string   `json:"key"`
		Modifiers []string `json:"modifiers"`
		Ref       string   `json:"ref"`
		Selector  string   `json:"selector"`
		Count     int      `json:"count"`
		HoldMS    int      `json:"hold_ms"`
		Snapshot  string   `json:"snapshot"`
	}{Count: 1}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	what, err := parseChord(args.Key, args.Modifiers)
	if err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	if what.pastes() {
		if !c.tab.chrome.Headless { // else there is another clipboard than the device's
			if err := c.inv.BeforePaste(c.shownPage); err != nil {
				return capabilities.Output{}, err
			}
		}
		if err := c.ownClipboard(); err != nil {
			return capabilities.Output{}, err
		}
	}
	v, err := c.perform(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "key"},
		func(ctx context.Context, _ aimed) ([]*devtools.Pending, error) {
			return c.strike(ctx, what, args.Count, time.Duration(args.HoldMS)*time.Millisecond)
		})
	if err != nil {
		return capabilities.Output{}, err
	}
	if use := what.elsewhere(); use != "" && v.effect != capabilities.EffectConfirmed {
		v = v.with(browserKey.of(use))
	}
	return c.result(v)
}

// strike queues the modifiers' going down, the key as often as asked, and the
// modifiers' coming up. A modifier never stays down, whatever happens between.
func (c *call) strike(ctx context.Context, what chord, count int, hold time.Duration) (sent []*devtools.Pending, err error) {
	b := c.keyboard()
	var held int64
	var down []string
	for _, name := range modifierOrder {
		if m := modifierKeys[name]; what.held&m.bit != 0 && what.key.name != name {
			held |= m.bit
			down = append(down, name)
			sent = append(sent, b.down(ctx, m.key, held))
		}
	}
	own := modifierKeys[what.key.name].bit // a modifier pressed by itself is held by itself
	for range count {
		sent = append(sent, b.down(ctx, what.key, held|own))
		if hold > 0 {
			err = c.hold(sent[len(sent)-1], hold)
		} else {
			err = paced(ctx, sent)
		}
		if err != nil {
			ctx = c.whole
		}
		sent = append(sent, b.up(ctx, what.key, held))
		if err != nil {
			break
		}
	}
	for i := len(down) - 1; i >= 0; i-- {
		m := modifierKeys[down[i]]
		held &^= m.bit
		sent = append(sent, b.up(ctx, m.key, held))
	}
	if hold > 0 && err == nil {
		// The release counts, too, with what it starts; the press was long ago.
		for _, p := range sent {
			if _, err = p.Wait(ctx); err != nil {
				return nil, err
			}
		}
	}
	return sent, err
}
