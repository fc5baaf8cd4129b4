package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// view says which part of a page a snapshot shows, and how.
type view struct {
	Ref         string `json:"ref,omitzero"`
	Selector    string `json:"selector,omitzero"`
	Max         int    `json:"max"`
	Interactive bool   `json:"interactive"`
	Base        int    `json:"base"` // the lane's next free ref
}

// seen is what the page script answers to it.
type seen struct {
	Text    string `json:"text"`
	Omitted int    `json:"omitted"`
	Next    int    `json:"next"`
	URL     string `json:"url"`
	Title   string `json:"title"`
}

// maxSnapshot is how many characters a snapshot has if its caller says nothing.
const maxSnapshot = 16000

// snapshot carries out tyrum.browser.snapshot.
func snapshot(c *call) (capabilities.Output, error) {
	args := struct {
		Ref         string `json:"ref"`
		Selector    string `json:"selector"`
		MaxChars    int    `json:"max_chars"`
		Interactive bool   `json:"interactive_only"`
	}{MaxChars: maxSnapshot}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	answer, err := c.look(view{Ref: args.Ref, Selector: args.Selector, Max: args.MaxChars, Interactive: args.Interactive})
	if err != nil {
		return capabilities.Output{}, err
	}
	result := struct {
		Snapshot  string `json:"snapshot"`
		URL       string `json:"url"`
		Title     string `json:"title"`
		Truncated bool   `json:"truncated,omitempty"`
		Omitted   int    `json:"omitted_chars,omitempty"`
	}{answer.Text, clip(answer.URL, maxURL), clip(answer.Title, maxTitle), answer.Omitted > 0, answer.Omitted}
	if strings.HasPrefix(result.URL, "data:") && len(result.URL) > maxDataURL {
		result.URL = clip(result.URL, maxDataURL) + "…"
	}
	return capabilities.Output{Result: result, Untrusted: true}, nil
}

// snapshotFor gives the snapshot that an action was asked to bring along: none,
// delta (what changed since the tab's last snapshot) or full.
func (c *call) snapshotFor(mode string) (string, error) {
	if mode == "" || mode == "none" {
		return "", nil
	}
	answer, err := c.look(view{Max: maxSnapshot})
	return answer.Text, err
}

// look reads the tab's page.
func (c *call) look(v view) (answer seen, err error) {
	v.Base = c.lane.takeRefs()
	if _, err := c.tab.ask(c.ctx, "snapshot", v, &answer); err != nil {
		return seen{}, err
	}
	c.lane.putRefs(answer.Next)
	if answer.Omitted > 0 {
		answer.Text += "\n(… cut here; read a part with ref or selector, or use interactive_only or a larger max_chars)"
	}
	return answer, nil
}
