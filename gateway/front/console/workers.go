package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// shownWorker is a worker on another machine with what can be decided about it.
type shownWorker struct {
	*visit
	api.Worker
}

// Word is how it stands.
func (w shownWorker) Word() string {
	if w.State == "approved" {
		return "let in"
	}
	return w.State
}

// Mood is the class of its word.
func (w shownWorker) Mood() string {
	return map[string]string{"approved": "good", "pending": "busy"}[w.State]
}

// Pending reports whether somebody has to decide about it.
func (w shownWorker) Pending() bool { return w.State == "pending" }

// In reports whether it is let in.
func (w shownWorker) In() bool { return w.State == "approved" }

// workers are those of other machines that are in or wait; who was put out stands in the ledger.
func (v *visit) workers() (all []shownWorker, err error) {
	if !v.Offers("GET /v1/workers") {
		return nil, nil
	}
	var list api.WorkerList
	if err := v.get(v1("workers"), &list); err != nil {
		return nil, err
	}
	for _, w := range list.Workers {
		if one := (shownWorker{v, w}); one.Pending() || one.In() {
			all = append(all, one)
		}
	}
	return all, nil
}

// changeWorker lets a worker in, turns it away, or puts it out.
func (c *Console) changeWorker(v *visit) {
	action := v.r.PostForm.Get("do")
	err := error(capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change"))
	switch action {
	case "approve", "deny", "revoke":
		err = v.ask(http.MethodPost, v1("workers", v.r.PathValue("worker"), action), api.Reason{}, nil)
	}
	if err != nil {
		v.showJobs(err)
		return
	}
	v.seeOther("/console/jobs", "changed")
}
