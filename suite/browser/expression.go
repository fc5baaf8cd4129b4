package browser

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/suite"
)

// holds wants a value of an expression in the page, now.
func holds(expression string, want any) step {
	return func(r *run) { r.compare(expression, r.eval(expression), want) }
}

// becomes wants it soon: for effects that the page itself puts off.
func becomes(expression string, want any) step { return becomesWithin(patience, expression, want) }

func becomesWithin(patience time.Duration, expression string, want any) step {
	return func(r *run) {
		wanted, _ := json.Marshal(want)
		wait := fmt.Sprintf(`new Promise(done => { const began = Date.now(), want = JSON.stringify(%s); (function look() {
			let v; try { v = (%s) } catch (e) { v = 'error: ' + e }
			if (JSON.stringify(v) === want || Date.now() - began > %d) done(v); else setTimeout(look, 10) })() })`, wanted, expression,
			patience.Milliseconds())
		began := time.Now()
		c := r.Call("evaluate", with("expression", wait))
		for c.Code == "" && c.Effect == capabilities.EffectPartial && time.Since(began) < patience {
			// The page left while it was awaited: the one it left for is asked.
			c = r.Call("evaluate", with("expression", wait))
		}
		r.compare(expression, r.valueOf(expression, c), want)
	}
}

func (r *run) eval(expression string) any {
	return r.valueOf(expression, r.Call("evaluate", with("expression", expression)))
}

// valueOf returns what an evaluate came to.
func (r *run) valueOf(expression string, c *suite.Call) any {
	if c.Code != "" {
		r.Fail("evaluate %s: %s", capabilities.Brief(expression, 200), c.End())
	}
	return c.Result["result"]
}

func (r *run) compare(what string, got, want any) { suite.Same(r, what, got, want, nil) }
