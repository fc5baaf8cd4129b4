package tasks

import (
	"github.com/handrail-dev/handrail/suite/browser"
)

// settling are pages whose change comes after the event that asked for it.
func settling() []*browser.Behaviour {
	after := func(id, title, script string, more ...any) *browser.Behaviour {
		parts := append([]any{browser.HTML(`<main><h1>Orders</h1><button id=go>Go on</button><div id=o></div></main><script>
const done = () => { o.innerHTML = '<p>` + Marker + `</p>' };
go.onclick = () => { ` + script + ` };</script>`),
			works(func(a *agent) {
				a.looks()
				a.acts("click", "ref", a.ref(`button "Go on"`))
				a.sees(Marker)
			})}, more...)
		return browser.B("settled."+id, title, "the change is read", parts...)
	}
	return []*browser.Behaviour{
		after("fetch", "a click whose change comes with an answer after 200 ms", `fetch('slow?ms=200&type=text/plain&body=x').then(r => r.text()).then(done)`),
		after("timer", "a click whose change comes by a timer after 100 ms", `setTimeout(done, 100)`),
		after("route", "a click that changes the route, whose page loads its part", `history.pushState(null, '', '#next'); document.querySelector('h1').textContent = 'Loading';
  Promise.resolve().then(() => fetch('slow?ms=100&type=text/plain&body=x')).then(r => r.text()).then(() => setTimeout(done))`),
		after("hung-image", "a click that shows something beside an image that never comes", `o.innerHTML = '<img alt="Chart" src="hang">'; setTimeout(() => { o.innerHTML += '<p>`+Marker+`</p>' })`),
	}
}
