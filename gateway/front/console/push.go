package console

import (
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/push"
)

// browsers are the visitor's browsers that are told what waits.
type browsers struct {
	Key           string              `json:"key"`
	Subscriptions []push.Subscription `json:"subscriptions"`
}

// notices is where a person has their browser told, also while no page is open.
func (v *visit) notices() html {
	var b browsers
	if v.get(api("account", "push"), &b) != nil || b.Key == "" {
		return html{}
	}
	return el("section", attrs{"class", "card", "aria-labelledby", "notices"},
		el("h2", attrs{"id", "notices"}, text("Notices")),
		p(text("A browser tells you when something waits for you, also while no page of Handrail is open. Its push service carries the notice and cannot read it.")),
		when(len(b.Subscriptions) > 0, el("ul", class("plainlist"), each(b.Subscriptions, func(s push.Subscription) html {
			return el("li", nil, v.form(at("account", "push", s.ID), attrs{"class", "inline"},
				el("strong", nil, text(s.Name)), text(" "), span("faint", textf("through %s, since ", s.Service), moment(s.CreatedAt)), text(" "),
				button("plain", "Remove", "aria-label", "Remove: "+s.Name)))
		}))),
		when(len(b.Subscriptions) == 0, el("p", class("faint"), text("Notifications are off."))),
		v.form("/console/account/push", attrs{"class", "fields", "data-push", b.Key},
			el("label", attrs{"for", "push-name"}, text("Name of this browser")),
			void("input", attrs{"id", "push-name", "name", "name", "required", "", "maxlength", "60", "value", "", "placeholder", "such as: phone", "autocomplete", "off"}),
			each([]string{"endpoint", "p256dh", "auth"}, func(name string) html { return void("input", attrs{"type", "hidden", "name", name}) }),
			el("p", attrs{"class", "none", "role", "alert", "data-problem", ""}),
			button("plain", "Turn on for this browser")))
}

// subscribe passes on what push.js put into the form.
func (c *Console) subscribe(v *visit) {
	f := v.r.PostForm
	err := error(nil)
	if f.Get("endpoint") == "" {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form holds no subscription").WithHint("The page needs script for notices.")
	} else {
		err = v.ask(http.MethodPost, api("account", "push"), map[string]any{
			"name": f.Get("name"), "endpoint": f.Get("endpoint"), "keys": map[string]string{"p256dh": f.Get("p256dh"), "auth": f.Get("auth")},
		}, nil)
	}
	if err != nil {
		v.showAccount(err)
		return
	}
	v.seeOther("/console/account", "told")
}

func (c *Console) unsubscribe(v *visit) {
	if err := v.ask(http.MethodDelete, api("account", "push", v.r.PathValue("subscription")), nil, nil); err != nil {
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
