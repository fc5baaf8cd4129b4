package browser

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
	inpage "github.com/handrail-dev/handrail/capabilities/browser/page"
)

// How select-option chooses in a list that the page draws itself (page/dressed.js): the page
// script says what is to be done next, and it is done by real input, until it says what the
// list shows.

// unfoldStep is what is to be done next.
type unfoldStep struct {
	Do       string   `json:"do"`    // click, type, key, or done
	Then     string   `json:"then"`  // the step after it
	Ref      string   `json:"ref"`   // click
	Picks    bool     `json:"picks"` // what is clicked is an option that is wanted
	Text     string   `json:"text"`  // type: into what has the focus
	Key      string   `json:"key"`   // key
	Verdict  string   `json:"verdict"`
	Selected []string `json:"selected"`
	Open     bool     `json:"open"` // the list stays open
}

// maxUnfoldSteps bounds the steps of one choice beside those for its options.
const maxUnfoldSteps = 60

// dressedVerdicts are the page script's words for what came of a choice.
var dressedVerdicts = map[string]cause{
	"same": selectedAlready, "behind": listFollowed, "gone": fieldReplaced,
	"shown": chosenShown, "held": chosenHeld, "more": chosenAmongOthers, "unshown": chosenUnshown,
}

// unfold chooses in the list that the page script just made ready in that world.
func (c *call) unfold(w world, wanted []string) (v verdict, selected []string, err error) {
	c.input()
	step, picked := "native", false
	for range maxUnfoldSteps + 3*len(wanted) {
		var next unfoldStep
		err = w.put(c.ctx, inpage.Unfold, map[string]string{"step": step}).get(c.ctx, &next)
		if contextLost(err) || departedSince(c) {
			v, err = c.awaitNavigation(c.before, of(newDocument)) // a listener of the list made its document go
			return v, wanted, err
		}
		if err == nil && next.Do == "done" {
			v = of(dressedVerdicts[next.Verdict])
			if next.Open {
				v = v.with(evidence{cause: listStaysOpen}).as(capabilities.EffectPartial)
			}
			return v, next.Selected, nil
		}
		var did verdict
		if err == nil {
			step = next.Then
			if did, err = c.takeStep(next); next.Picks && (isCode(err, capabilities.CodeElementNotFound) || isCode(err, capabilities.CodeStaleRef)) {
				step, err, next.Picks = "again", nil, false
			}
		}
		if err != nil {
			c.leaveList(w)
			return verdict{}, nil, err
		}
		if picked = picked || next.Picks; departedSince(c) {
			if !picked {
				return did, nil, nil // it was no list: pressing it made the page leave
			}
			return did, wanted, nil
		}
	}
	c.leaveList(w)
	return verdict{}, nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "The page's own list asks for ever more clicks.").
		WithHint("Take a snapshot and click the option.")
}

// takeStep does it.
func (c *call) takeStep(next unfoldStep) (verdict, error) {
	switch next.Do {
	case "click":
		return c.clickOn(field{Ref: next.Ref})
	case "type":
		return verdict{}, c.keyboard().enter(c.input(), nil, next.Text, entry{keys: true})
	}
	return c.perform(aimArgs{Kind: "key"}, func(ctx context.Context, _ aimed) ([]*devtools.Pending, error) {
		return c.keyboard().press(ctx, nil, namedKeys[next.Key]), nil
	})
}

// leaveList closes what was opened for a choice that was not made. The refusal is told
// whatever comes of that.
func (c *call) leaveList(w world) {
	var next unfoldStep
	if w.put(c.ctx, inpage.Unfold, map[string]string{"step": "leave"}).get(c.ctx, &next) == nil && next.Do == "key" {
		c.takeStep(next)
	}
}
