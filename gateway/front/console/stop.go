package console

import (
	"net/http"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// stopState is the site's switch, as the REST surface tells it.
type stopState struct {
	Stopped bool                     `json:"stopped"`
	By      capabilities.PrincipalID `json:"by"`
	Reason  string                   `json:"reason"`
	Since   time.Time                `json:"since"`
}

func (c *Console) stopPage(v *visit) { v.showStop(nil) }

func (v *visit) showStop(problem error) {
	var state stopState
	if err := v.get(api("stop"), &state); err != nil {
		v.show(page{title: "Stop", here: "/console/stop", fault: err})
		return
	}
	pg := page{title: "Stop", here: "/console/stop", live: "packet node", fault: problem, remedy: v.remedy(problem, "POST /v1/resume", "/console/confirm/resume"), modules: []string{"passkey"},
		lead: text("Ends every running call on every device, takes back every grant, and lets nothing begin until somebody resumes.")}
	if state.Stopped {
		pg.body = div("card switch on",
			el("h2", nil, text("Stopped")),
			facts(fact{"Since", moment(state.Since)}, fact{"By", text(string(state.By))}, fact{"Reason", text(state.Reason)}),
			v.control("POST /v1/resume", "/console/resume", attrs{"class", "stack"},
				el("label", attrs{"for", "reason"}, text("Reason (optional, recorded)")),
				void("input", attrs{"id", "reason", "name", "reason", "maxlength", "500"}),
				button("main", "Resume")))
	} else {
		pg.body = div("card switch",
			el("h2", nil, text("Calls may run")),
			v.control("POST /v1/stop", "/console/stop", attrs{"class", "stack"},
				el("label", attrs{"for", "reason"}, text("Reason (optional, recorded)")),
				void("input", attrs{"id", "reason", "name", "reason", "maxlength", "500"}),
				button("danger big", "Stop everything now")),
			el("p", class("faint"), text("It takes effect at once, also at devices that are connected; the others learn it when they come back. A device can also be stopped at the device itself.")))
	}
	v.show(pg)
}

func (c *Console) stop(v *visit) {
	v.turned(v.ask(http.MethodPost, api("stop"), map[string]string{"reason": v.r.PostForm.Get("reason")}, nil), "stopped")
}

func (c *Console) resume(v *visit) { v.turned(v.sends("resume", nil), "resumed") }

func (v *visit) turned(problem error, outcome string) {
	if problem != nil {
		v.showStop(problem)
		return
	}
	v.seeOther("/console/stop", outcome)
}
