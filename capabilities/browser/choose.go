package browser

import (
	"runtime"

	"github.com/handrail-dev/handrail/capabilities"
)

// selectOption carries out tyrum.browser.select-option on a native list, or on one that the page
// draws itself (unfold.go).
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
	ctx := c.input()
	aim := aimArgs{Ref: args.Ref, Selector: args.Selector, Kind: "choose", Values: args.Values}
	if runtime.GOOS != "darwin" {
		aim.Button = "key" // there, an arrow key opens the list instead
	}
	w, at, err := c.aim(aim)
	if err != nil {
		return capabilities.Output{}, err
	}
	v := of(selectedAlready)
	dressed := at.Verdict == "dressed"
	if dressed {
		if v, at.Selected, err = c.unfold(w, args.Values); err != nil {
			return capabilities.Output{}, err
		}
	}
	if at.Key != "" {
		for _, p := range c.keyboard().press(ctx, nil, namedKeys[at.Key]) {
			if _, err := p.Wait(ctx); err != nil {
				return capabilities.Output{}, err
			}
		}
		// If the page took the key for itself, the list is set from inside.
		aim.Button = ""
		chosen, whole := at.Selected, c.ctx
		soft, cancel := c.soft() // while a server has not answered, the page does not
		defer cancel()
		c.ctx = soft
		_, at, err = c.aim(aim)
		if c.ctx = whole; contextLost(err) || departedSince(c) {
			// A listener of the list made its document go.
			at, err = aimed{Verdict: "match", Selected: chosen}, nil
		}
		if err != nil {
			return capabilities.Output{}, err
		}
		if at.Verdict == "same" {
			at.Verdict = "match"
		}
	}
	if at.Verdict != "same" && !dressed {
		v = judge(at.Verdict, optionsSelected)
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

// departedSince reports that the input made the page leave.
func departedSince(c *call) bool {
	now, _ := c.tab.look()
	return departed(c.before, now)
}
