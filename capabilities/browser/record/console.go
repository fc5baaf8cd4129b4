package record

import (
	"context"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"

	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// Bounds of a tab's messages.
const (
	maxMessages     = 1000
	maxMessageBytes = 2 << 20 // of all messages together

	// MaxText bounds the text of one message, as it is told.
	MaxText = 16<<10 - 4
)

// Console is the newest messages of one tab, across its documents. Chrome sends each message
// once, when it happens, so the tab listens from its set-up on; the raw event is kept and only put
// into words when somebody asks, because a page may log in a tight loop. It is safe for concurrent
// use; the zero value is ready.
type Console struct {
	mu    sync.Mutex
	ring  ring[*entry]
	bytes int
}

// entry is one message: raw until it is asked for.
type entry struct {
	method string
	raw    []byte
	said   *Message
	size   int
	loader cdp.LoaderID // of the document that was shown then
}

// Message is one message in words.
type Message struct {
	Seq  int64  `json:"seq"`
	Type string `json:"type"`
	Text string `json:"text"` // at most Slack longer than MaxText
	URL  string `json:"url,omitempty"`
	Line int64  `json:"line,omitempty"`
	At   string `json:"at,omitempty"`

	rank   int          // severity: 0 error … 3 debug
	loader cdp.LoaderID // of the document that was shown then
	// request is the one it is about. That of a document has its loader's ID, and may be
	// spoken of before the document is shown.
	request string
}

// WatchConsole queues what makes a session report its console.
func WatchConsole(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	return []*devtools.Pending{
		devtools.Start(ctx, s, runtime.Enable, cdp.Empty{}).Pending,
		devtools.Start(ctx, s, cdplog.Enable, cdp.Empty{}).Pending,
	}
}

// ranks orders the levels that a caller may ask for.
var ranks = map[string]int{"error": 0, "warning": 1, "info": 2, "debug": 3}

// IsLevel reports whether a caller may ask for messages of that level.
func IsLevel(level string) bool {
	_, known := ranks[level]
	return known
}

// Within reports whether the message is of that level or graver.
func (m *Message) Within(level string) bool { return m.rank <= ranks[level] }

// Of reports whether the message is of the document with that loader.
func (m *Message) Of(loader cdp.LoaderID) bool {
	return m.loader == loader || m.request == string(loader)
}

// Add records one event, of the document with that loader or what is in it. It runs on
// the reading goroutine.
func (c *Console) Add(loader cdp.LoaderID, method string, params []byte) {
	e := &entry{method: method, raw: params, size: len(params) + 200, loader: loader}
	if len(params) > 4<<10 || method == "Log.entryAdded" {
		e.say() // its long parts need not be kept; not every entry is a message
		if e.said == nil {
			return
		}
		e.size = len(e.said.Text) + len(e.said.URL) + 200
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += e.size
	for c.ring.max = maxMessages; len(c.ring.entries) > 0 && (c.bytes > maxMessageBytes || len(c.ring.entries) == maxMessages); {
		c.bytes -= c.ring.drop().size
	}
	c.ring.push(e)
}

// say puts an entry into words, once; said is nil for what is no message.
func (e *entry) say() {
	if e.said == nil && e.raw != nil {
		e.said, e.raw = say(e.method, e.raw), nil
	}
}

// Last is the number of the latest message, 0 if there was none.
func (c *Console) Last() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ring.last()
}

// Since returns the messages after that number, oldest first, and the number of the latest one.
// With clear, the record forgets all of them; numbers go on.
func (c *Console) Since(seq int64, clear bool) (all []Message, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring.each(seq, func(seq int64, e *entry) {
		if e.say(); e.said != nil {
			m := *e.said
			m.Seq, m.loader = seq, e.loader
			all = append(all, m)
		}
	})
	last = c.ring.last()
	if clear {
		c.ring.clear()
		c.bytes = 0
	}
	return all, last
}

// ExceptionSince returns the first line of the first exception after that number that nobody
// caught, empty for none.
func (c *Console) ExceptionSince(seq int64) (text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring.each(seq, func(_ int64, e *entry) {
		if text != "" || e.method != "Runtime.exceptionThrown" {
			return
		}
		if e.say(); e.said != nil {
			text, _, _ = strings.Cut(e.said.Text, "\n")
		}
	})
	return text
}

// Reset begins the record anew, numbers and all.
func (c *Console) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring, c.bytes = ring[*entry]{}, 0
}
