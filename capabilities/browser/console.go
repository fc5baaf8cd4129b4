package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	jsonv2 "github.com/chromedp/cdproto/cdp/jsonv2"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

// Messages of a tab's console. Chrome sends each message once, when it happens,
// so the tab listens from its set-up on; the raw event is kept and only put into
// words when somebody asks, because a page may log in a tight loop.

// Bounds of a tab's record.
const (
	maxConsole      = 1000
	maxConsoleText  = 16<<10 - 4
	maxConsoleBytes = 2 << 20 // of all messages together
)

// consoleRecord is the newest messages of one tab, across its documents.
type consoleRecord struct {
	mu    sync.Mutex
	ring  ring[*consoleEntry]
	bytes int
}

// consoleEntry is one message: raw until it is asked for.
type consoleEntry struct {
	method string
	raw    []byte
	said   *consoleMessage
	size   int
	loader cdp.LoaderID // of the document that was shown then
}

// consoleMessage is one message in words.
type consoleMessage struct {
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
	Text string `json:"text"`
	URL  string `json:"url,omitempty"`
	Line int64  `json:"line,omitempty"`
	At   string `json:"at,omitempty"`
	rank int    // severity: 0 error … 3 debug
	// request is the one it is about. That of a document has its loader's ID, and may be
	// spoken of before the document is shown.
	request string
}

// watchConsole queues what makes a session report its console.
func watchConsole(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	return []*devtools.Pending{
		devtools.Start(ctx, s, runtime.Enable, cdp.Empty{}).Pending,
		devtools.Start(ctx, s, cdplog.Enable, cdp.Empty{}).Pending,
	}
}

// add records one event, of the document with that loader or what is in it. It runs on
// the reading goroutine.
func (r *consoleRecord) add(loader cdp.LoaderID, method string, params []byte) {
	e := &consoleEntry{method: method, raw: params, size: len(params) + 200, loader: loader}
	if len(params) > 4<<10 || method == "Log.entryAdded" {
		e.said, e.raw = sayConsole(method, params), nil // its long parts need not be kept; not every entry is a message
		if e.said == nil {
			return
		}
		e.size = len(e.said.Text) + len(e.said.URL) + 200
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += e.size
	for r.ring.max = maxConsole; len(r.ring.entries) > 0 && (r.bytes > maxConsoleBytes || len(r.ring.entries) == maxConsole); {
		r.bytes -= r.ring.drop().size
	}
	r.ring.push(e)
}

func (r *consoleRecord) last() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ring.last()
}

// exceptionSince returns the first line of the first exception after that entry that nobody
// caught, empty for none.
func (r *consoleRecord) exceptionSince(seq int64) (text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring.each(seq, func(_ int64, e *consoleEntry) {
		if text != "" || e.method != "Runtime.exceptionThrown" {
			return
		}
		if e.said == nil {
			e.said, e.raw = sayConsole(e.method, e.raw), nil
		}
		if e.said != nil {
			text, _, _ = strings.Cut(e.said.Text, "\n")
		}
	})
	return text
}

// consoleRanks orders the levels that a caller may ask for.
var consoleRanks = map[string]int{"error": 0, "warning": 1, "info": 2, "debug": 3}

// consoleMessages carries out tyrum.browser.console-messages. It asks the page
// nothing, so that it answers while a script runs or a dialog is open.
func consoleMessages(c *call) (capabilities.Output, error) {
	args := struct {
		Clear  bool   `json:"clear"`
		Level  string `json:"level"`
		Since  *int64 `json:"since"`
		Before int64  `json:"before"`
		Limit  int    `json:"limit"`
	}{Level: "debug"}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	t, err := c.lane.current(c.ctx, false)
	if err != nil {
		return capabilities.Output{}, err
	}
	c.tab = t
	most, known := consoleRanks[args.Level]
	if !known {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "level %q: want error, warning, info or debug.",
			args.Level)
	}
	result := struct {
		Messages []*consoleMessage `json:"messages"`
		Omitted  int               `json:"omitted,omitempty"`
		Last     int64             `json:"last"`
	}{Messages: []*consoleMessage{}}
	r, hider := &t.console, c.lane.hider()
	loader, since, earlier := t.shownLoader(), int64(0), 0
	if args.Since != nil {
		since = *args.Since
	}
	r.mu.Lock()
	r.ring.each(since, func(seq int64, e *consoleEntry) {
		if e.said == nil && e.raw != nil {
			e.said, e.raw = sayConsole(e.method, e.raw), nil
		}
		if m := e.said; m != nil && m.rank <= most && (args.Before == 0 || seq < args.Before) {
			if args.Since == nil && e.loader != loader && m.request != string(loader) {
				earlier++
				return
			}
			m.Seq = seq
			shown := hider.whole(m.Text)
			if shown != m.Text {
				c.hidIn("messages")
			}
			if shown = clipText(shown, maxConsoleText); shown != m.Text {
				kept := *m
				kept.Text, m = shown, &kept
			}
			result.Messages = append(result.Messages, m)
		}
	})
	result.Last = r.ring.last()
	if args.Clear {
		r.ring.clear()
		r.bytes = 0
	}
	r.mu.Unlock()
	result.Omitted = newestThatFit(&result.Messages, args.Limit, func(m *consoleMessage) int { return jsonSize(m.Text) + jsonSize(m.URL) })
	out := capabilities.Output{Result: result, Untrusted: true}
	if earlier > 0 {
		out.Evidence = fmt.Sprintf("%d of pages before are not listed: since 0 lists them", earlier)
	}
	return out, nil
}

// Bounds of one list of messages or requests, as JSON: whose limit its caller says,
// and whose it does not.
const (
	maxListed     = 200 << 10
	maxListedSelf = 32 << 10
)

// newestThatFit cuts a list to the newest limit entries, 100 if that is 0, and further
// until they fit an answer; it returns how many were left out.
func newestThatFit[T any](list *[]T, limit int, size func(T) int) (omitted int) {
	from, room := len(*list), maxListed
	if limit == 0 {
		limit, room = 100, maxListedSelf
	}
	for from > 0 && len(*list)-from < limit {
		if room -= size((*list)[from-1]) + 120; room < 0 { // names of fields, numbers, time
			break
		}
		from--
	}
	*list = (*list)[from:]
	return from
}

// jsonSize is how long s is at most as a JSON string.
func jsonSize(s string) (n int) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c < 0x20 || c == '<' || c == '>' || c == '&':
			n += 6
		case c == '"' || c == '\\':
			n += 2
		default:
			n++
		}
	}
	return n
}

// sayConsole puts an event into words; nil for what is no message.
func sayConsole(method string, params []byte) *consoleMessage {
	switch method {
	case "Runtime.consoleAPICalled":
		var e runtime.EventConsoleAPICalled
		if !decodeEvent(params, &e) {
			return nil
		}
		m := &consoleMessage{Type: string(e.Type), At: stamp(e.Timestamp), rank: 2}
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
		m.Text = clipText(m.Text+sayArgs(e.Args), maxConsoleText+slack)
		m.locate(e.StackTrace)
		return m
	case "Runtime.exceptionThrown":
		var e runtime.EventExceptionThrown
		if !decodeEvent(params, &e) || e.ExceptionDetails == nil {
			return nil
		}
		d := e.ExceptionDetails
		m := &consoleMessage{Type: "error", At: stamp(e.Timestamp), URL: plainURL(d.URL), Line: d.LineNumber + 1}
		m.Text = d.Text
		if d.Exception != nil {
			m.Text += " " + sayValue(d.Exception, true)
		}
		m.Text = clipText(m.Text, maxConsoleText+slack)
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
		if !decodeEvent(params, &e) || strings.HasSuffix(e.Entry.URL, "/favicon.ico") {
			return nil // the browser asked for that icon, not the page
		}
		m := &consoleMessage{
			Type: e.Entry.Level, Text: clipText(e.Entry.Text, maxConsoleText+slack), URL: plainURL(e.Entry.URL), At: stamp(e.Entry.Timestamp),
			request: e.Entry.Request,
		}
		if e.Entry.Line > 0 {
			m.Line = e.Entry.Line + 1
		}
		if m.Type == "verbose" {
			m.Type = "debug"
		}
		m.rank = consoleRanks[m.Type]
		return m
	}
	return nil
}

// locate takes address and line of the frame that logged.
func (m *consoleMessage) locate(s *runtime.StackTrace) {
	if s != nil && len(s.CallFrames) > 0 {
		m.URL, m.Line = plainURL(s.CallFrames[0].URL), s.CallFrames[0].LineNumber+1
	}
}

func stamp(ms runtime.Timestamp) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
}

// clipText is clip with a mark of what was cut: by that mark a hider knows that a secret
// may have been cut there, too. All text of a page is cut so.
func clipText(s string, max int) string { return outline.Clip(s, max) }

// sayArgs words the arguments of a console call as a developer's console does:
// placeholders of the first are filled, strings stand bare, objects are brief.
func sayArgs(args []*runtime.RemoteObject) string {
	var b strings.Builder
	rest := args
	if len(args) > 1 && args[0] != nil && args[0].Type == runtime.RemoteObjectTypeString {
		format := stringOf(args[0].Value)
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
		if b.Len() > maxConsoleText {
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
		if s := stringOf(o.Value); bare {
			return clipText(s, maxConsoleText+slack)
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
		return clipText(string(o.Value), maxConsoleText+slack)
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
	return "ƒ " + clipText(strings.TrimSpace(strings.TrimPrefix(head, "function")), 60)
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

func quoteBrief(s string) string { return "'" + clipText(s, 200) + "'" }

// stringOf reads a JSON string; whatever else it is stays as it stands.
func stringOf(raw jsonv2.Value) string {
	if len(raw) < 2 || raw[0] != '"' {
		return string(raw)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
