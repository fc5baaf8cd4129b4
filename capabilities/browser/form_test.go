//go:build linux

package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// tenFields is a form whose kinds of fields differ, and that says what was sent.
func tenFields() string {
	var b strings.Builder
	b.WriteString(`<title>Order</title><form onsubmit="event.preventDefault(); done.textContent = 'Sent ' + [...new FormData(this).values()].join('|')">`)
	for i := range 6 {
		fmt.Fprintf(&b, `<label>Field %d <input name=f%d></label>`, i, i)
	}
	b.WriteString(`<label>Notes <textarea name=notes></textarea></label><label>Size <select name=size><option>Small<option>Large</select></label>
<label><input type=checkbox name=gift value=gift> As a gift</label><label>Day <input type=date name=day></label>
<button>Send</button></form><p id=done></p>`)
	return b.String()
}

// A form of ten fields costs one call: a script reads the page, fills the fields by their refs,
// sends the form, expects what follows, and returns what came of it.
func TestAFormOfTenFieldsIsOneCall(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/a": tenFields()})
	code := `
		page.navigate('` + s.URL + `/a');
		const values = {Notes: 'by hand', Size: 'Large', 'As a gift': 'true', Day: '2026-11-29'};
		for (let i = 0; i < 6; i++) values['Field ' + i] = 'value ' + i;
		const fields = Object.entries(values).map(([name, value]) => ({ref: page.ref(name), value}));
		page.fillForm({fields});
		page.click({ref: page.ref('Send', 'button')});
		page.expect(page.waitFor({text: 'Sent value 0', timeout_ms: 5000}).matched, 'the form is sent');
		return page.evaluate('done.textContent')`
	a := n.must("run-code", obj{"code": code})
	if got := a.m["result"]; got != "Sent value 0|value 1|value 2|value 3|value 4|value 5|by hand|Large|gift|2026-11-29" {
		t.Errorf("%v", got)
	}
	if a.Effect != capabilities.EffectUnverifiable && a.Effect != capabilities.EffectConfirmed {
		t.Errorf("%s: %s", a.Effect, a.Evidence)
	}
}

// A script that fails midway says which expectation was not met and what it had found until then.
func TestAScriptThatFailsKeepsWhatItFound(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/a": tenFields()})
	e := n.refused(capabilities.CodeScriptFailed, "run-code", obj{"code": `
		page.navigate('` + s.URL + `/a');
		page.keep('title', page.evaluate('document.title'));
		page.fillForm({ref: page.ref('Notes'), value: 'x'});
		page.keep('filled', [1, 2]);
		page.expect(page.evaluate('done.textContent') === 'Sent', 'the form is sent');
		return 'never'`})
	if !strings.Contains(e.PublicMessage(), "expected: the form is sent") || !strings.Contains(e.PublicMessage(), "Steps done before") {
		t.Error(e.PublicMessage())
	}
	raw, err := json.Marshal(e.Details)
	if err != nil || !strings.Contains(string(raw), `"kept":{"title":"Order","filled":[1,2]}`) {
		t.Errorf("%s, %v", raw, err)
	}
	// A name that several elements have, or none, is refused with what there is.
	e = n.refused(capabilities.CodeScriptFailed, "run-code", obj{"code": `page.ref('Field')`})
	if !strings.Contains(e.PublicMessage(), "6 elements") {
		t.Error(e.PublicMessage())
	}
	if e = n.refused(capabilities.CodeScriptFailed, "run-code", obj{"code": `page.ref('Nothing')`}); !strings.Contains(e.PublicMessage(), "nothing is called") {
		t.Error(e.PublicMessage())
	}
}
