package consent

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Told is what those who may answer are shown of a call beyond what may be recorded. It is
// kept in memory while the question is open and goes to them alone: not into the ledger,
// not to a webhook, not to a phone. Everything in it is made safe to look at.
type Told struct {
	// Does says what the call does, such as "types 36 characters"; empty if its arguments
	// have nothing that says it.
	Does string
	// Purpose is why the agent says that it calls: its claim, and nothing that was checked.
	Purpose string
	// Where is what the call meets on the device; nil if the device did not say.
	Where *Where
	// Into is Where in words that follow Does.
	Into   string
	Fields []Field // the arguments
	// TooLong says that the arguments are longer than what is kept of them.
	TooLong bool
	// Frame is the picture that the call points into; nil if it quotes none.
	Frame *Frame
}

// Where is what a call meets on its device, as the device says when it is asked.
type Where struct {
	App      string
	Window   string // its title, or a page's
	Field    string // the name of what takes the text or is acted on
	Role     string // of Field, such as "button"
	Address  string // of a page, without its query
	Password bool   // it is typed where nobody is to read it
	Terminal bool   // what is typed there are commands
	// Named are the elements that arguments name: they are told beside these.
	Named []Named
}

// Named is an element that an argument names, such as "fields.1.ref"; without one, what has
// the focus.
type Named struct {
	Arg, Role, Name string
	Secret          bool // what is typed there, nobody is shown
}

// words says an element: its role, and its name if it has one.
func (n Named) words() string {
	switch {
	case n.Name == "":
		return Plain(n.Role)
	case n.Role == "":
		return "“" + Plain(n.Name) + "”"
	}
	return Plain(n.Role) + " “" + Plain(n.Name) + "”"
}

// Field is one argument. Text is cut to a bound; More counts the characters that are left.
type Field struct {
	Name   string // such as "text" or "action.args"
	Text   string
	More   int
	Script bool   // a program: its lines stand as they are
	Hidden bool   // a password: nobody is shown it
	Is     string // the element that it names, such as: button “Send”
}

// Frame is a picture that a call quotes, with the places that the call names in it.
type Frame struct {
	ID    string
	Spots []Spot // in pixels of the picture, in order
	Mine  bool   // the gateway has a copy of the picture
}

// Spot is a place in a picture.
type Spot struct {
	X float64
	Y float64
}

// Bounds of what is told of one call. Whole is for who asks for one question alone.
const (
	maxToldArgs   = 256 << 10 // kept of the arguments; of longer ones nothing is told
	maxToldFields = 64
	maxToldDepth  = 8
	maxToldText   = 2000 // bytes of one argument
	maxToldWhole  = 128 << 10
)

// hidden is a part of the names of fields that take what nobody is to read.
var hidden = []string{"passw", "passcode", "passphrase", "secret", "token", "otp", "cvv", "cvc", "pin"}

// scripts are the names of arguments that are shown on demand: programs, and by which way a
// viewer connects.
var scripts = []string{"code", "expression", "function", "offer"}

// tell makes what is told of a call from its canonical arguments.
func tell(args []byte, purpose string, where *Where, most int) Told {
	t := Told{Purpose: Plain(purpose), Where: where.plain()}
	t.Into = t.Where.words()
	if args == nil {
		t.TooLong = true
		return t
	}
	root, err := canonical.Decode(args, canonical.Limits{})
	if err != nil { // it was read before
		return t
	}
	w := teller{most: most, secret: where != nil && where.Password}
	if where != nil {
		w.named = where.Named
	}
	w.whole()
	w.walk("", root, 0)
	t.Does, t.Fields = does(root), w.fields
	t.Frame = quoted(root, 0)
	return t
}

func (w *Where) plain() *Where {
	if w == nil {
		return nil
	}
	out := &Where{
		App: Plain(w.App), Window: Plain(w.Window), Field: Plain(w.Field), Role: Plain(w.Role), Address: Plain(w.Address), Password: w.Password,
		Terminal: w.Terminal,
	}
	if out.Field == "" && len(w.Named) == 1 { // the one that the call is about
		out.Field, out.Role = Plain(w.Named[0].Name), Plain(w.Named[0].Role)
		out.Password = out.Password || w.Named[0].Secret
	}
	return out
}

// teller flattens arguments into fields.
type teller struct {
	fields []Field
	most   int
	secret bool // the text goes where nobody is to read it
	named  []Named
}

// whole takes secrecy from the only element, which all text goes to.
func (t *teller) whole() {
	if len(t.named) == 1 && !strings.Contains(t.named[0].Arg, ".") {
		t.secret = t.secret || t.named[0].Secret
	}
}

// hides reports whether the element that stands beside an argument holds what nobody is to
// read.
func (t *teller) hides(name string) bool {
	at := strings.LastIndex(name, ".")
	return at >= 0 && slices.ContainsFunc(t.named, func(n Named) bool {
		return n.Secret && (n.Arg == name[:at]+".ref" || n.Arg == name[:at]+".selector")
	})
}

func (t *teller) walk(name string, v canonical.Value, depth int) {
	if len(t.fields) >= maxToldFields || depth > maxToldDepth {
		return
	}
	switch v.Kind {
	case canonical.Object:
		masked := masks(v)
		for _, m := range v.Members {
			at := m.Key
			if name != "" {
				at = name + "." + m.Key
			}
			if masked && (m.Key == "value" || m.Key == "text") {
				t.fields = append(t.fields, Field{Name: Plain(at), Hidden: true})
				continue
			}
			t.walk(at, m.Value, depth+1)
		}
	case canonical.Array:
		if slices.ContainsFunc(v.Items,
			func(item canonical.Value) bool { return item.Kind == canonical.Object || item.Kind == canonical.Array }) {
			for i, item := range v.Items {
				t.walk(fmt.Sprintf("%s.%d", name, i), item, depth+1)
			}
			return
		}
		t.add(name, string(v.Append(nil)))
	case canonical.String:
		t.add(name, v.Str)
	default:
		t.add(name, string(v.Append(nil)))
	}
}

func (t *teller) add(name, text string) {
	last := name[strings.LastIndex(name, ".")+1:]
	f := Field{Name: Plain(name), Script: slices.Contains(scripts, last)}
	switch {
	case (t.secret || t.hides(name)) && (last == "text" || last == "value"):
		f.Hidden = true
	default:
		head := capabilities.Clip(text, t.most)
		f.More = utf8.RuneCountInString(text) - utf8.RuneCountInString(head)
		as := typed
		if f.Script {
			as = lines
		}
		f.Text = capabilities.EscapeBut(head, as)
	}
	if i := slices.IndexFunc(t.named, func(n Named) bool { return n.Arg != "" && n.Arg == name }); i >= 0 {
		if words := t.named[i].words(); words != "" {
			f.Is = words
		}
	}
	t.fields = append(t.fields, f)
}

// typed shows keys that leave no character; lines keeps a program's lines.
var (
	typed = map[rune]string{'\n': "⏎", '\t': "⇥", '⏎': `\u{23ce}`, '⇥': `\u{21e5}`}
	lines = map[rune]string{'\n': "\n", '\t': "\t"}
)

// masks reports whether an object says of itself that what it fills in is a password.
func masks(v canonical.Value) bool {
	for _, m := range v.Members {
		if m.Key == "value" || m.Key == "text" || m.Value.Kind != canonical.String {
			continue
		}
		name := strings.ToLower(m.Value.Str)
		if slices.ContainsFunc(hidden, func(part string) bool { return word(name, part) }) {
			return true
		}
	}
	return false
}

// word reports whether part stands in name where a word begins.
func word(name, part string) bool {
	for at := 0; ; {
		i := strings.Index(name[at:], part)
		if i < 0 {
			return false
		}
		at += i
		if at == 0 || !isLetter(name[at-1]) {
			return true
		}
		at += len(part)
	}
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' }

// does says in words what arguments do, by the names that the catalog uses for one thing
// throughout.
func does(root canonical.Value) string {
	action, _ := root.Get("action")
	text, hasText := root.Get("text")
	key, hasKey := root.Get("key")
	kind := action.Str
	if action.Kind == canonical.Object {
		root = action
		named, _ := root.Get("kind")
		kind = named.Str
		text, hasText = root.Get("text")
	}
	for _, name := range scripts {
		if v, ok := root.Get(name); ok && v.Kind == canonical.String {
			return fmt.Sprintf("runs a script of %s", counted(utf8.RuneCountInString(v.Str), "character"))
		}
	}
	spots := spotsOf(root)
	switch {
	case hasText && text.Kind == canonical.String && (kind == "type" || kind == ""):
		return "types " + counted(utf8.RuneCountInString(text.Str), "character")
	case hasKey && key.Kind == canonical.String:
		out := "presses " + Plain(key.Str)
		if n, ok := root.Get("count"); ok && n.Num > 1 {
			out += fmt.Sprintf(" %d times", int(n.Num))
		}
		return out
	case kind == "launch":
		app, _ := root.Get("app")
		out := "starts " + Plain(app.Str)
		if args, ok := root.Get("args"); ok && len(args.Items) > 0 {
			out += " with " + counted(len(args.Items), "argument")
		}
		return out
	case kind != "" && len(spots) > 0:
		out := pointing(root, kind) + fmt.Sprintf(" at %g, %g", spots[0].X, spots[0].Y)
		if len(spots) > 1 {
			last := spots[len(spots)-1]
			out += fmt.Sprintf(", on to %g, %g", last.X, last.Y)
		}
		return out
	}
	return ""
}

// pointing names what the pointer does.
func pointing(root canonical.Value, kind string) string {
	out := map[string]string{
		"click": "clicks", "move": "moves the pointer", "drag": "drags", "scroll": "scrolls", "down": "presses a button",
		"up": "lets a button go",
	}[kind]
	if out == "" {
		out = Plain(kind)
	}
	if n, ok := root.Get("count"); ok && kind == "click" && n.Num > 1 {
		out += fmt.Sprintf(" %d times", int(n.Num))
	}
	if b, ok := root.Get("button"); ok && b.Str != "" && b.Str != "left" {
		out += " (" + Plain(b.Str) + ")"
	}
	return out
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// quoted finds the picture that arguments point into.
func quoted(v canonical.Value, depth int) *Frame {
	if v.Kind != canonical.Object || depth > maxToldDepth {
		return nil
	}
	if id, ok := v.Get("frame_id"); ok && id.Kind == canonical.String {
		return &Frame{ID: Plain(id.Str), Spots: spotsOf(v)}
	}
	for _, m := range v.Members {
		if f := quoted(m.Value, depth+1); f != nil {
			return f
		}
	}
	return nil
}

// Quotes returns the ID of the picture that a call's arguments point into; "" if there is none.
func Quotes(args []byte) string {
	root, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return ""
	}
	if f := quoted(root, 0); f != nil {
		return f.ID
	}
	return ""
}

// spotsOf returns the places that an object names: its own, then those of its path.
func spotsOf(v canonical.Value) []Spot {
	var all []Spot
	add := func(v canonical.Value) {
		x, okX := v.Get("x")
		y, okY := v.Get("y")
		if okX && okY && x.Kind == canonical.Number && y.Kind == canonical.Number && len(all) < maxToldFields {
			all = append(all, Spot{x.Num, y.Num})
		}
	}
	add(v)
	if path, ok := v.Get("path"); ok {
		for _, item := range path.Items {
			if item.Kind == canonical.Object {
				add(item)
			}
		}
	}
	return all
}

// terminals are applications in which what is typed are commands.
var terminals = []string{
	"xterm", "uxterm", "urxvt", "rxvt", "st", "konsole", "gnome-terminal", "gnome-terminal-server", "org.gnome.terminal", "kgx", "console",
	"ptyxis", "xfce4-terminal", "lxterminal", "mate-terminal", "terminator", "tilix", "terminology", "qterminal", "guake", "yakuake",
	"alacritty", "kitty", "foot", "wezterm", "wezterm-gui", "ghostty", "cool-retro-term", "deepin-terminal", "terminal", "iterm", "iterm2",
	"warp", "hyper", "tabby", "windowsterminal", "windows terminal", "cmd", "command prompt", "powershell", "windows powershell", "pwsh",
	"conhost", "mintty", "putty",
}

// IsTerminal reports whether an application of that name takes commands.
func IsTerminal(app string) bool {
	name := strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(app, `\`, "/"))), ".exe")
	return slices.Contains(terminals, name)
}

// Told returns what those who may answer are told of a question that waits; whole: with its
// texts as long as they are. False: it is not open, or the process has forgotten it.
func (c *Consent) Told(id string, whole bool) (Told, bool) {
	c.mu.Lock()
	p := c.pending[id]
	if p == nil || p.Form != nil { // a form is whole in the question itself
		c.mu.Unlock()
		return Told{}, false
	}
	raw, purpose, where, pictured := p.raw, p.purpose, p.where, p.picture != nil
	c.mu.Unlock()
	most := maxToldText
	if whole {
		most = maxToldWhole
	}
	t := tell(raw, purpose, where, most)
	if t.Frame != nil {
		t.Frame.Mine = pictured
	}
	return t, true
}

// Picture returns the bytes of the picture that a question quotes and the places in it.
// CodeNotFound if it quotes none, or the gateway has no copy.
func (c *Consent) Picture(id string) ([]byte, []Spot, error) {
	var raw, picture []byte
	c.mu.Lock()
	if p := c.pending[id]; p != nil {
		raw, picture = p.raw, p.picture
	}
	c.mu.Unlock()
	if picture == nil {
		return nil, nil, capabilities.Errorf(capabilities.CodeNotFound, "the gateway has no picture for this question")
	}
	t := tell(raw, "", nil, 0)
	if t.Frame == nil {
		return nil, nil, capabilities.Errorf(capabilities.CodeNotFound, "this question quotes no picture")
	}
	return picture, t.Frame.Spots, nil
}

// keepArgs returns what is kept of arguments while a question is open.
func keepArgs(args []byte) []byte {
	if len(args) > maxToldArgs {
		return nil
	}
	return slices.Clone(args)
}
