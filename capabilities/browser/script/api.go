package script

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"
)

// What a script can use:
//
//	page.TOOL(args)     carries out a tool of this conversation: page.navigate,
//	                    page.click, page.waitFor, … with that tool's arguments, gives
//	                    its result, with effect and evidence beside the fields.
//	                    Throws an Error with code, message and hint. It is done when it
//	                    returns; await changes nothing.
//	page.navigate(url), page.evaluate(expression or function), page.pressKey(key),
//	page.click(selector) and others that take a selector: short for the one field.
//	page.evaluate       gives the value itself.
//	console.log(…)      adds a line to the log.
//	setTimeout, clearTimeout
//
// The code is the body of an async function, so return and await work at its top;
// or it is a function of page.

// sourceName is the script's name in stacks.
const sourceName = "script"

// functionCode recognises code that is one function: it is called with page.
var functionCode = regexp.MustCompile(`^\s*(async\s+)?(function\b|\([^()]*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)`)

// compile makes the function that runs the code. Lines keep their numbers.
func compile(code string) (*goja.Program, error) {
	body := "(async function(page, console) {" + code + "\n})"
	program, err := goja.Compile(sourceName, body, false)
	if functionCode.MatchString(code) {
		if p, err := goja.Compile(sourceName, "("+strings.TrimRight(strings.TrimSpace(code), ";")+"\n)", false); err == nil {
			return p, nil
		}
	}
	return program, err
}

var syntaxPlace = regexp.MustCompile(`Line (\d+):\d+ (.*)`)

// syntaxMessage takes the place out of a syntax error's text.
func syntaxMessage(e *goja.CompilerSyntaxError) (string, int) {
	m := syntaxPlace.FindStringSubmatch(e.Error())
	if m == nil {
		return e.Error(), lineIn(e.Error())
	}
	line, _ := strconv.Atoi(m[1])
	return "SyntaxError: " + m[2], line
}

// wrapScript lets a step's result be awaited and chained, though it is there.
const wrapScript = `(function(v) {
	if (v === null || typeof v !== 'object') return v;
	const plain = Array.isArray(v) ? v.slice() : Object.assign({}, v);
	for (const name of ['then', 'catch', 'finally'])
		Object.defineProperty(v, name, { value: function(a, b) { return Promise.resolve(plain)[name](a, b); } });
	return v;
})`

// short names the field that a lone text stands for.
var short = map[string]string{
	"navigate": "url", "evaluate": "expression", "press-key": "key", "click": "selector", "hover": "selector",
	"snapshot": "selector", "screenshot": "selector",
}

// globals makes what the script sees.
func (p *process) globals(tools []string) (page, console *goja.Object, err error) {
	vm := p.vm
	var ok bool
	if p.stringify, ok = goja.AssertFunction(vm.Get("JSON").ToObject(vm).Get("stringify")); !ok {
		return nil, nil, errors.New("no JSON")
	}
	parse, ok := goja.AssertFunction(vm.Get("JSON").ToObject(vm).Get("parse"))
	if !ok {
		return nil, nil, errors.New("no JSON")
	}
	wrapped, err := vm.RunScript("wrap", wrapScript)
	if err != nil {
		return nil, nil, err
	}
	wrap, _ := goja.AssertFunction(wrapped)
	page, console = vm.NewObject(), vm.NewObject()
	for _, tool := range tools {
		page.Set(camel(tool), func(c goja.FunctionCall) goja.Value {
			raw := p.step(tool, p.arguments(tool, c))
			v, err := parse(goja.Undefined(), vm.ToValue(string(raw)))
			if err != nil {
				panic(err)
			}
			if tool == "evaluate" {
				if o, ok := v.(*goja.Object); ok {
					return o.Get("result")
				}
			}
			if v, err = wrap(goja.Undefined(), v); err != nil {
				panic(err)
			}
			return v
		})
	}
	for _, level := range []string{"log", "info", "debug", "warn", "error"} {
		console.Set(level, func(c goja.FunctionCall) goja.Value {
			prefix := ""
			if level == "warn" || level == "error" {
				prefix = level + ": "
			}
			if p.logs++; p.logs > maxLogs { // the host has said that more was left out
				return goja.Undefined()
			}
			text := clip(prefix+p.text(c.Arguments), maxLogEntry)
			p.say(toHost{Log: &text})
			return goja.Undefined()
		})
	}
	global := vm.GlobalObject()
	global.Set("page", page)
	global.Set("console", console)
	global.Set("setTimeout", func(c goja.FunctionCall) goja.Value {
		do, ok := goja.AssertFunction(c.Argument(0))
		if !ok {
			panic(vm.NewTypeError("setTimeout needs a function"))
		}
		var rest []goja.Value
		if len(c.Arguments) > 2 {
			rest = slices.Clone(c.Arguments[2:]) // the interpreter uses its own again
		}
		id := p.timers.add(do, rest, time.Duration(max(c.Argument(1).ToInteger(), 0))*time.Millisecond)
		if id == 0 {
			panic(vm.NewTypeError("too many timers"))
		}
		return vm.ToValue(id)
	})
	global.Set("clearTimeout", func(c goja.FunctionCall) goja.Value {
		p.timers.remove(int(c.Argument(0).ToInteger()))
		return goja.Undefined()
	})
	return page, console, nil
}

// arguments gives a step's arguments as a JSON object.
func (p *process) arguments(tool string, c goja.FunctionCall) json.RawMessage {
	first := c.Argument(0)
	if len(c.Arguments) > 1 {
		panic(p.vm.NewTypeError("page.%s takes one object with the tool's arguments", camel(tool)))
	}
	if goja.IsUndefined(first) || goja.IsNull(first) {
		return json.RawMessage("{}")
	}
	if _, isFunction := goja.AssertFunction(first); isFunction && tool == "evaluate" {
		first = p.vm.ToValue(first.String()) // its source
	}
	if text, ok := first.Export().(string); ok {
		field := short[tool]
		if field == "" {
			panic(p.vm.NewTypeError("page.%s takes an object with the tool's arguments, not a text", camel(tool)))
		}
		raw, _ := json.Marshal(map[string]string{field: text})
		return raw
	}
	text, err := p.stringify(goja.Undefined(), first)
	if err != nil {
		panic(err)
	}
	if s := text.String(); strings.HasPrefix(s, "{") {
		return json.RawMessage(s)
	}
	panic(p.vm.NewTypeError("page.%s takes one object with the tool's arguments", camel(tool)))
}

// step asks the host and waits. A failure is thrown.
func (p *process) step(tool string, args json.RawMessage) json.RawMessage {
	p.calls++
	id := p.calls
	if err := p.say(toHost{Call: &Call{ID: id, Tool: tool, Args: args}}); err != nil {
		panic(p.vm.NewGoError(err))
	}
	line, err := readLine(p.in)
	if err == nil {
		var m toGuest
		if m, err = decode[toGuest](line); err == nil {
			switch {
			case m.Answer == nil || m.Answer.ID != id:
				err = errors.New("script: an answer to another question")
			case m.Answer.Failure != nil:
				panic(p.thrownBy(id, m.Answer.Failure))
			default:
				return m.Answer.Value
			}
		}
	}
	p.broken = err
	panic(p.vm.NewGoError(err))
}

// thrownBy makes the Error of a failed step.
func (p *process) thrownBy(id int, f *failure) goja.Value {
	o, err := p.vm.New(p.vm.Get("Error"), p.vm.ToValue(f.Message))
	if err != nil {
		return p.vm.ToValue(f.Message)
	}
	o.Set("code", string(f.Code))
	o.Set("hint", f.Hint)
	o.Set("call", id)
	return o
}

// text words what is logged.
func (p *process) text(values []goja.Value) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteByte(' ')
		}
		if o, ok := v.(*goja.Object); ok && o.ClassName() != "Error" && o.ClassName() != "Function" {
			if s, err := p.stringify(goja.Undefined(), v); err == nil && !goja.IsUndefined(s) {
				b.WriteString(s.String())
				continue
			}
		}
		b.WriteString(v.String())
	}
	return b.String()
}

// timers are what setTimeout put aside, run while the script awaits.
type timers struct {
	last int
	list []timer
}

type timer struct {
	id   int
	at   time.Time
	do   goja.Callable
	args []goja.Value
}

const maxTimers = 1000

func (t *timers) add(do goja.Callable, args []goja.Value, after time.Duration) int {
	if len(t.list) >= maxTimers {
		return 0
	}
	t.last++
	t.list = append(t.list, timer{t.last, time.Now().Add(min(after, time.Hour)), do, args})
	return t.last
}

func (t *timers) remove(id int) {
	for i := range t.list {
		if t.list[i].id == id {
			t.list = append(t.list[:i], t.list[i+1:]...)
			return
		}
	}
}

// next takes the earliest timer out.
func (t *timers) next() (timer, bool) {
	first := -1
	for i := range t.list {
		if first < 0 || t.list[i].at.Before(t.list[first].at) {
			first = i
		}
	}
	if first < 0 {
		return timer{}, false
	}
	n := t.list[first]
	t.list = append(t.list[:first], t.list[first+1:]...)
	return n, true
}

// camel spells a tool's name as scripts write it.
func camel(tool string) string {
	parts := strings.Split(tool, "-")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

func itoa(n int) string { return strconv.Itoa(n) }

// clip shortens s to at most max bytes at a rune's edge.
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && s[max]&0xC0 == 0x80 {
		max--
	}
	return s[:max]
}
