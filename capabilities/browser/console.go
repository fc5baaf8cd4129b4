package browser

import (
	"fmt"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

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
	if !record.IsLevel(args.Level) {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "level %q: want error, warning, info or debug.",
			args.Level)
	}
	result := struct {
		Messages []record.Message `json:"messages"`
		Omitted  int              `json:"omitted,omitempty"`
		Last     int64            `json:"last"`
	}{Messages: []record.Message{}}
	hider := c.lane.hider()
	loader, since, earlier := t.shownLoader(), int64(0), 0
	if args.Since != nil {
		since = *args.Since
	}
	all, last := t.console.Since(since, args.Clear)
	result.Last = last
	for _, m := range all {
		if !m.Within(args.Level) || args.Before != 0 && m.Seq >= args.Before {
			continue
		}
		if args.Since == nil && !m.Of(loader) {
			earlier++
			continue
		}
		shown := hider.whole(m.Text)
		if shown != m.Text {
			c.hidIn("messages")
		}
		m.Text = clipText(shown, record.MaxText)
		result.Messages = append(result.Messages, m)
	}
	result.Omitted = newestThatFit(&result.Messages, args.Limit, func(m record.Message) int { return jsonSize(m.Text) + jsonSize(m.URL) })
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

// clipText is clip with a mark of what was cut: by that mark a hider knows that a secret
// may have been cut there, too. All text of a page is cut so.
func clipText(s string, max int) string { return outline.Clip(s, max) }
