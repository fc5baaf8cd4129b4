package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// browsers are the visitor's browsers that are told what waits.
type browsers struct {
	*visit
	api.Push
}

// subscribe passes on what push.js put into the form.
func (c *Console) subscribe(v *visit) {
	f := v.r.PostForm
	err := error(nil)
	if f.Get("endpoint") == "" {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form holds no subscription").
			WithHint("The page needs script for notices.")
	} else {
		err = v.ask(http.MethodPost, v1("account", "push"), api.Subscribe{
			Name: f.Get("name"), Endpoint: f.Get("endpoint"), Keys: api.SubscribeKeys{P256dh: f.Get("p256dh"), Auth: f.Get("auth")},
		}, nil)
	}
	if err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "told")
}

func (c *Console) unsubscribe(v *visit) {
	if err := v.ask(http.MethodDelete, v1("account", "push", v.r.PathValue("subscription")), nil, nil); err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "untold")
}

// serveWorker serves what shows notices. Browsers take a worker for pages below its own
// address only, so it has one without a digest, and look whether it has changed.
func (c *Console) serveWorker(w http.ResponseWriter, _ *http.Request) {
	guardHeaders(w)
	h := w.Header()
	h.Set("Content-Type", c.assets["worker.js"].mime)
	h.Set("Cache-Control", "no-cache")
	_, _ = w.Write(c.assets["worker.js"].plain)
}
