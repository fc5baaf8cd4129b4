package browser

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// snapshot carries out tyrum.browser.snapshot.
func snapshot(c *call) (capabilities.Output, error) {
	args := struct {
		Ref         string `json:"ref"`
		Selector    string `json:"selector"`
		MaxChars    int    `json:"max_chars"`
		Interactive bool   `json:"interactive_only"`
	}{MaxChars: 16000}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	question := struct {
		Ref         string `json:"ref,omitzero"`
		Selector    string `json:"selector,omitzero"`
		Max         int    `json:"max"`
		Interactive bool   `json:"interactive"`
		Base        int    `json:"base"`
	}{args.Ref, args.Selector, args.MaxChars, args.Interactive, c.lane.takeRefs()}
	var answer struct {
		Text    string `json:"text"`
		Omitted int    `json:"omitted"`
		Next    int    `json:"next"`
		URL     string `json:"url"`
		Title   string `json:"title"`
	}
	if _, err := c.tab.ask(c.ctx, "snapshot", question, &answer); err != nil {
		return capabilities.Output{}, err
	}
	c.lane.putRefs(answer.Next)
	result := struct {
		Snapshot  string `json:"snapshot"`
		URL       string `json:"url"`
		Title     string `json:"title"`
		Truncated bool   `json:"truncated,omitempty"`
		Omitted   int    `json:"omitted_chars,omitempty"`
	}{answer.Text, clip(answer.URL, maxURL), clip(answer.Title, maxTitle), answer.Omitted > 0, answer.Omitted}
	if answer.Omitted > 0 {
		result.Snapshot += "\n(… cut here; read a part with ref or selector, or use interactive_only or a larger max_chars)"
	}
	if strings.HasPrefix(result.URL, "data:") && len(result.URL) > maxDataURL {
		result.URL = clip(result.URL, maxDataURL) + "…"
	}
	return capabilities.Output{Result: result, Untrusted: true}, nil
}
