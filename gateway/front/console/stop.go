package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/gateway/api"
)

func (c *Console) showSwitch(v *visit) { v.showStop(nil) }

// stopPage is the site's switch.
type stopPage struct {
	*visit
	api.Stop
}

func (v *visit) showStop(problem error) {
	var state api.Stop
	if err := v.get(v1("stop"), &state); err != nil {
		v.show(page{name: "problem", title: "Stop", here: "/console/stop", fault: err})
		return
	}
	v.show(page{name: "stop", title: "Stop", here: "/console/stop", live: "packet node", fault: problem, modules: []string{"passkey"},
		remedy: v.remedy(problem, "POST /v1/resume", "/console/confirm/resume"), data: stopPage{v, state}})
}

func (c *Console) stop(v *visit) {
	v.turned(v.ask(http.MethodPost, v1("stop"), api.Reason{Reason: v.r.PostForm.Get("reason")}, nil), "stopped")
}

func (c *Console) resume(v *visit) { v.turned(v.sends("resume", nil), "resumed") }

func (v *visit) turned(problem error, outcome string) {
	if problem != nil {
		v.showStop(problem)
		return
	}
	v.seeOther("/console/stop", outcome)
}
