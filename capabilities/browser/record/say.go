package record

import (
	"strconv"
	"strings"
	"time"

	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// say puts an event into words; nil for what is no message.
func say(method string, params []byte) *Message {
	switch method {
	case "Runtime.consoleAPICalled":
		var e runtime.EventConsoleAPICalled
		if !devtools.Decode(params, &e) {
			return nil
		}
		m := &Message{Type: string(e.Type), At: stamp(e.Timestamp), rank: 2}
		switch e.Type {
		case "endGroup", "clear", "profile", "profileEnd":
			return nil
		case "error":
			m.rank = 0
		case "assert":
			m.rank, m.Text = 0, "Assertion failed: "
		case "warning":
			m.rank = 1
		case "debug":
			m.rank = 3
		case "startGroup", "startGroupCollapsed":
			m.Type = "group"
		}
		m.Text = outline.Clip(m.Text+sayArgs(e.Args), MaxText+Slack)
		m.locate(e.StackTrace)
		return m
	case "Runtime.exceptionThrown":
		var e runtime.EventExceptionThrown
		if !devtools.Decode(params, &e) || e.ExceptionDetails == nil {
			return nil
		}
		d := e.ExceptionDetails
		m := &Message{Type: "error", At: stamp(e.Timestamp), URL: PlainURL(d.URL), Line: d.LineNumber + 1}
		m.Text = d.Text
		if d.Exception != nil {
			m.Text += " " + sayValue(d.Exception, true)
		}
		m.Text = outline.Clip(m.Text, MaxText+Slack)
		if m.URL == "" {
			m.locate(d.StackTrace)
		}
		return m
	case "Log.entryAdded":
		var e struct {
			Entry struct {
				Level     string            `json:"level"`
				Text      string            `json:"text"`
				Timestamp runtime.Timestamp `json:"timestamp"`
				URL       string            `json:"url"`
				Line      int64             `json:"lineNumber"`
				Request   string            `json:"networkRequestId"`
			} `json:"entry"`
		}
		if !devtools.Decode(params, &e) || strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
			return nil // the browser asked for that icon, not the page
		}
		m := &Message{
			Type: e.Entry.Level, Text: outline.Clip(e.Entry.Text, MaxText+Slack), URL: PlainURL(e.Entry.URL), At: stamp(e.Entry.Timestamp),
			request: e.Entry.Request,
		}
		if e.Entry.Line > 0 {
			m.Line = e.Entry.Line + 1
		}
		if m.Type == "verbose" {
			m.Type = "debug"
		}
		m.rank = ranks[m.Type]
		return m
	}
	return nil
}

// locate takes address and line of the frame that logged.
func (m *Message) locate(s *runtime.StackTrace) {
	if s != nil && len(s.CallFrames) > 0 {
		m.URL, m.Line = PlainURL(s.CallFrames[0].URL), s.CallFrames[0].LineNumber+1
	}
}

func stamp(ms runtime.Timestamp) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// sayArgs words the arguments of a console call as a developer's console does:
// placeholders of the first are filled, strings stand bare, objects are brief.
func sayArgs(args []*runtime.RemoteObject) string {
	var b strings.Builder
	rest := args
	if len(args) > 1 && args[0] != nil && args[0].Type == runtime.RemoteObjectTypeString {
		format := devtools.StringOf(args[0].Value)
		if strings.Contains(format, "%") {
			rest = args[1:]
			for {
				before, after, found := strings.Cut(format, "%")
				b.WriteString(before)
				if !found || after == "" {
					if found {
						b.WriteByte('%')
					}
					break
				}
				format = after[1:]
				switch verb := after[0]; {
				case verb == '%':
					b.WriteByte('%')
				case strings.IndexByte("sdifoOc", verb) < 0 || len(rest) == 0:
					b.WriteByte('%')
					format = after
				default:
					if verb != 'c' { // a style: nothing to say
						b.WriteString(sayValue(rest[0], true))
					}
					rest = rest[1:]
				}
			}
			if len(rest) > 0 {
				b.WriteByte(' ')
			}
		}
	}
	for i, a := range rest {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() > MaxText {
			break
		}
		b.WriteString(sayValue(a, true))
	}
	return b.String()
}

// sayValue words one value; bare says that a string stands without quotes.
func sayValue(o *runtime.RemoteObject, bare bool) string {
	switch {
	case o == nil:
		return ""
	case o.UnserializableValue != "":
		return string(o.UnserializableValue)
	case o.Type == runtime.RemoteObjectTypeString:
		if s := devtools.StringOf(o.Value); bare {
			return outline.Clip(s, MaxText+Slack)
		} else {
			return quoteBrief(s)
		}
	case o.Type == runtime.RemoteObjectTypeUndefined:
		return "undefined"
	case o.Type == runtime.RemoteObjectTypeFunction:
		return sayFunction(o.Description)
	case o.Subtype == runtime.RemoteObjectSubtypeError:
		return sayError(o.Description)
	case o.Preview != nil && describesItself[string(o.Subtype)]:
		return o.Description
	case o.Preview != nil:
		return sayPreview(o.Preview, 0)
	case len(o.Value) > 0:
		return outline.Clip(string(o.Value), MaxText+Slack)
	}
	return o.Description
}

// describesItself are the kinds whose description is all there is to say.
var describesItself = map[string]bool{
	"node": true, "regexp": true, "date": true, "promise": true, "proxy": true, "weakmap": true, "weakset": true,
}

// sayError keeps an exception's message and the nearest places of its stack.
func sayError(description string) string {
	lines := strings.Split(description, "\n")
	frames := 0
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "at ") {
			if frames++; frames > 5 {
				return strings.Join(lines[:i], "\n")
			}
		}
	}
	return description
}

func sayFunction(source string) string {
	head, _, _ := strings.Cut(source, "{")
	return "ƒ " + outline.Clip(strings.TrimSpace(strings.TrimPrefix(head, "function")), 60)
}

// sayPreview words what Chrome sent along of an object, such as
// {a: 1, b: 'x', …}, (3) [1, 2, 3] or Map(1) {'k' => 2}.
func sayPreview(p *runtime.ObjectPreview, depth int) string {
	if p == nil {
		return ""
	}
	if p.Type == "function" {
		return sayFunction(p.Description)
	}
	list := p.Subtype == "array" || p.Subtype == "typedarray"
	var parts []string
	for _, e := range p.Entries {
		part := sayPreview(e.Value, depth+1)
		if e.Key != nil {
			part = sayPreview(e.Key, depth+1) + " => " + part
		}
		parts = append(parts, part)
	}
	if len(p.Entries) == 0 {
		for _, q := range p.Properties {
			value := sayProperty(q, depth)
			if _, err := strconv.Atoi(q.Name); !list || err != nil {
				value = q.Name + ": " + value
			}
			parts = append(parts, value)
		}
	}
	if len(parts) == 0 && p.Description != "" && p.Description != "Object" && !list && p.Subtype == "" {
		if p.Type == "string" {
			return quoteBrief(p.Description)
		}
		if p.Type != "object" {
			return p.Description
		}
	}
	if p.Overflow {
		parts = append(parts, "…")
	}
	body := strings.Join(parts, ", ")
	switch {
	case list:
		return "[" + body + "]"
	case p.Description == "Object" || p.Description == "":
		return "{" + body + "}"
	}
	return p.Description + " {" + body + "}"
}

func sayProperty(q *runtime.PropertyPreview, depth int) string {
	switch {
	case q.ValuePreview != nil && depth < 2:
		return sayPreview(q.ValuePreview, depth+1)
	case q.Type == "string":
		return quoteBrief(q.Value)
	case q.Type == "function":
		return "ƒ"
	case q.Type == "accessor":
		return "(…)"
	case q.Type == "object" && q.Value == "Object":
		return "{…}"
	}
	return q.Value
}

func quoteBrief(s string) string { return "'" + outline.Clip(s, 200) + "'" }
