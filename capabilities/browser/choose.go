package browser

import (
	"github.com/handrail-dev/handrail/capabilities"
)

// selectOption carries out tyrum.browser.select-option on a native list.
func selectOption(c *call) (capabilities.Output, error) {
	var args struct {
		Ref      string   `json:"ref"`
		Selector string   `json:"selector"`
		Values   []string `json:"values"`
		Snapshot string   `json:"snapshot"`
	}
	if err := c.args(&args); err != nil {
		return capabilities.Output{}, err
	}
	if err := c.page(); err != nil {
		return capabilities.Output{}, err
	}
	c.wants = args.Snapshot
	c.input()
	_, at, err := c.aim(aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "choose", Values: args.Values})
	if err != nil {
		return capabilities.Output{}, err
	}
	v := confirmed("it was selected already")
	if at.Verdict != "same" {
		v = judge(at.Verdict, "the options are selected")
	}
	if v, err = c.follow(v); err != nil {
		return capabilities.Output{}, err
	}
	return c.resultWith(v, func(a acted) any {
		return struct {
			acted
			Selected []string `json:"selected"`
		}{a, at.Selected}
	})
}
