package script

import (
	_ "embed"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"modernc.org/quickjs"

	"github.com/handrail-dev/handrail/capabilities"
)

// A script can use this (api.js defines it):
//
//	page.TOOL(args)     carries out a tool of this conversation: page.navigate,
//	                    page.click, page.waitFor, … with that tool's arguments, returns
//	                    its result, with effect and evidence beside the fields.
//	                    Throws an Error with code, message and hint. It is done when it
//	                    returns; await changes nothing.
//	page.navigate(url), page.evaluate(expression or function), page.pressKey(key),
//	page.click(selector) and others that take a selector: short for the one field.
//	page.evaluate       returns the value itself.
//	page.ref(name, role) the ref of the one element of that name; the role may be left out.
//	page.expect(ok, what) ends the script where ok is not true, and says what was expected.
//	page.keep(name, value) keeps a value that the error of a script that fails later has.
//	console.log(…)      adds a line to the log.
//	setTimeout, clearTimeout
//
// The code is the body of an async function, so return and await work at its top;
// or it is a function of page.

//go:embed api.js
var apiSource string

// place is how the engine names the script in stacks; what is evaluated within
// JavaScript, as api.js is, has another name.
const place = "<eval>:"

// functionCode recognises code that is one function: it is called with page.
var functionCode = regexp.MustCompile(`^\s*(async\s+)?(function\b|\([^()]*\)\s*=>|[A-Za-z_$][\w$]*\s*=>)`)

// compile makes the function that runs the code. Lines keep their numbers.
func (p *process) compile(code string) (quickjs.Value, error) {
	if functionCode.MatchString(code) {
		p.source = "(" + strings.TrimRight(code, "; \t\r\n") + "\n)"
		f, err := p.vm.EvalValue(p.source, quickjs.EvalGlobal)
		var e *quickjs.Error
		if err == nil || !errors.As(err, &e) || e.LineNumber == 0 { // only what is no JavaScript has a line
			return f, err
		}
	}
	p.source = "(async function(page, console) {" + code + "\n})"
	return p.vm.EvalValue(p.source, quickjs.EvalGlobal)
}

// settings are what api.js is told.
type settings struct {
	Tools       [][2]string `json:"tools"` // as the host names them, as scripts do
	MaxLogs     int         `json:"maxLogs"`
	MaxLogEntry int         `json:"maxLogEntry"`
	MaxLine     int         `json:"maxLine"`
	MaxMessage  int         `json:"maxMessage"`
	MaxTimers   int         `json:"maxTimers"`
}

const maxTimers = 1000

// globals makes what the script sees and returns api.js's driver.
func (p *process) globals(tools []string) (drive quickjs.Value, err error) {
	s := settings{MaxLogs: maxLogs, MaxLogEntry: maxLogEntry, MaxLine: maxLine / 2, MaxMessage: maxMessage, MaxTimers: maxTimers}
	for _, t := range tools {
		s.Tools = append(s.Tools, [2]string{t, camel(t)})
	}
	config, err := json.Marshal(s)
	if err != nil {
		return drive, err
	}
	for name, f := range map[string]quickjs.HostFunc{
		"handrailStep": p.step, "handrailLog": p.log, "handrailSleep": p.sleep, "handrailTell": p.tell,
		"handrailKeep": p.keep,
	} {
		if err := p.vm.RegisterHostFunc(name, f); err != nil {
			return drive, err
		}
	}
	prepare, err := p.vm.CallValue("eval", apiSource)
	if err != nil {
		return drive, err
	}
	defer prepare.Free()
	return prepare.CallValue(quickjs.UndefinedValue, string(config))
}

// answered is what api.js gets for a step; both members are always there.
type answered struct {
	Value   json.RawMessage `json:"value"`
	Failure any             `json:"failure"`
}

// step asks the host and waits.
func (p *process) step(args []any) (any, error) {
	tool, raw := textAt(args, 0), textAt(args, 1)
	p.calls++
	a, err := p.ask(Call{ID: p.calls, Tool: tool, Args: json.RawMessage(raw)})
	if err != nil {
		return nil, err
	}
	out := answered{Value: a.Value}
	if f := a.Failure; f != nil {
		out.Failure = map[string]any{"message": f.Message, "code": f.Code, "hint": f.Hint, "call": p.calls}
	}
	text, err := json.Marshal(out)
	return string(text), err
}

func (p *process) ask(c Call) (*answer, error) {
	line, err := encode(toHost{Call: &c})
	if err != nil {
		return nil, err // the arguments; the script may try others
	}
	if err := p.write(line); err != nil {
		return nil, err
	}
	if line, err = readLine(p.in); err != nil {
		return nil, p.fail(err)
	}
	m, err := decode[toGuest](line)
	if err != nil {
		return nil, p.fail(err)
	}
	if m.Answer == nil || m.Answer.ID != c.ID {
		return nil, p.fail(errors.New("script: an answer to another question"))
	}
	return m.Answer, nil
}

func (p *process) log(args []any) (any, error) {
	text := capabilities.Clip(textAt(args, 0), maxLogEntry)
	return nil, p.say(toHost{Log: &text})
}

// keep takes a value, as JSON, that the script keeps under a name.
func (p *process) keep(args []any) (any, error) {
	return nil, p.say(toHost{Keep: &Kept{Name: textAt(args, 0), Value: json.RawMessage(textAt(args, 1))}})
}

func (p *process) sleep(args []any) (any, error) {
	var ms float64
	switch n := args[0].(type) {
	case int:
		ms = float64(n)
	case float64:
		ms = n
	}
	time.Sleep(time.Duration(ms * float64(time.Millisecond)))
	return nil, nil
}

// tell takes what the script threw.
func (p *process) tell(args []any) (any, error) {
	p.threw = exception{text: textAt(args, 0), stack: textAt(args, 1)}
	if len(args) > 2 {
		p.threw.call, _ = args[2].(int)
	}
	return nil, nil
}

func textAt(args []any, i int) string {
	if i < len(args) {
		s, _ := args[i].(string)
		return s
	}
	return ""
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
