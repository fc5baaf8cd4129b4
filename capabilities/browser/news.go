package browser

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The next call, whatever it is, tells what came later than the action that it belongs to,
// such as a file that is made first or a window after a request: an agent that waits for it
// looks, and does not act.

// news is what no call has told yet. The catalog has its fields in the results of all tools but
// withoutNews.
type news struct {
	Downloads []downloaded `json:"downloads,omitempty"`
	Opened    []tabEntry   `json:"opened_tabs,omitempty"`
}

// withoutNews are the tools that begin or end all of it.
var withoutNews = map[capabilities.CapabilityID]bool{"tyrum.browser.launch": true, "tyrum.browser.close": true}

// newsWait bounds the wait for the address of a tab that came.
const newsWait = time.Second

// lateTabs returns the tabs that pages opened and no call has told of.
func (c *call) lateTabs() (late []tabEntry) {
	all, _ := c.lane.list()
	for i, t := range all {
		if t.opener == "" || t == c.tab || t.announce() {
			continue
		}
		c.settleUntil(t, time.Now().Add(newsWait))
		e, _ := c.entry(c.whole, t, i, t.askLocation(c.whole))
		late = append(late, e)
	}
	return late
}

// cameBefore is the evidence of tabs that came, without their addresses: those are pages'
// words.
func cameBefore(late []tabEntry) (all []evidence) {
	for _, t := range late {
		all = append(all, evidence{cause: tabOfBefore, number: t.Index})
	}
	return all
}

// tellNews adds to an answer what came since calls last told, as far as it has room.
func (c *call) tellNews(out *capabilities.Output) {
	ds := &c.lane.downloads
	ds.mu.Lock()
	pending := false
	for _, d := range ds.list {
		pending = pending || d.told != d.state
	}
	ds.mu.Unlock()
	all, _ := c.lane.list()
	for _, t := range all {
		pending = pending || t.opener != "" && t != c.tab && !t.isKnown()
	}
	if !pending || withoutNews[c.inv.Capability] {
		return
	}
	raw, err := json.Marshal(out.Result)
	var has map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &has) != nil {
		return
	}
	var n news
	if _, told := has["opened_tabs"]; !told {
		n.Opened = c.lateTabs()
		out.Evidence = joined(out.Evidence, verdict{}.with(cameBefore(n.Opened)...).words())
	}
	if _, told := has["downloads"]; !told {
		ds.mu.Lock()
		n.Downloads = ds.untoldLocked()
		ds.mu.Unlock()
		for _, d := range n.Downloads {
			out.Evidence = joined(out.Evidence, fmt.Sprintf("download %s, which an earlier action started: %s", d.ID, d.State))
		}
	}
	if len(n.Downloads)+len(n.Opened) == 0 {
		return
	}
	out.Result, out.Untrusted = withNews{out.Result, n}, true
}

// withNews is a result with news in it.
type withNews struct {
	Result any
	News   news
}

// MarshalJSON returns one object of both.
func (w withNews) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(w.Result)
	if err != nil {
		return nil, err
	}
	tail, err := json.Marshal(w.News)
	if err != nil || len(head) < 2 || head[0] != '{' {
		return head, err
	}
	if string(head) == "{}" {
		return tail, nil
	}
	return append(append(head[:len(head)-1], ','), tail[1:]...), nil
}
