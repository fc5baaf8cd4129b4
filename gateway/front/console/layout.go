package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

// page is what one page shows; the frame around it is the same for all.
type page struct {
	title string
	here  string // the address of its place in the menu
	lead  html   // one sentence below the title
	body  html
	// live names the events that change the page; "" if none does.
	live    string
	status  int // default 200
	fault   error
	remedy  html     // beside fault: what the visitor can do about it here
	modules []string // beside those of every page
	stage   html     // above body; the page does not ask for it again by itself
}

// place is an entry of the menu, shown to whom the REST surface would show it.
type place struct{ name, address, route string }

var places = []place{
	{"Approvals", "/console/approvals", "GET /v1/approvals"},
	{"Calls", "/console/calls", "GET /v1/calls"},
	{"Devices", "/console/nodes", "GET /v1/nodes"},
	{"Grants", "/console/grants", "GET /v1/grants"},
	{"Policies", "/console/policies", "GET /v1/policy"},
	{"Secrets", "/console/secrets", "GET /v1/secrets"},
	{"Agents", "/console/tokens", "GET /v1/tokens"},
	{"People", "/console/people", "GET /v1/users"},
	{"Ledger", "/console/ledger", "GET /v1/ledger/packets"},
}

// outcomes are what a page says after something was done. The address names one of
// them, so that nobody else's words get onto a page by a link.
var outcomes = map[string]string{
	"allowed":  "Allowed. The waiting call goes on.",
	"denied":   "Denied. The agent was told.",
	"resumed":  "Calls may run again. What was granted before stays revoked.",
	"stopped":  "Everything is stopped.",
	"changed":  "Saved.",
	"approved": "Approved. Run handrail node on the device now; it appears below as connected.",
	"granted":  "Granted. It ends by itself.",
	"taken":    "Taken back. The next such call asks again.",
	"extended": "You stay signed in.",

	"activated": "Activated. It counts from now on.",
	"staged":    "Staged. It decides nothing until it is activated.",
	"revoked":   "Revoked. Whatever it was running has ended.",
	"looks":     "It may look again where it pasted the secret.",
	"cancelled": "The call was ended. What it did before that is done.",
	"longer":    "There is more time for it.",
	"password":  "The password is set. Your other sessions ended.",
	"passkey":   "The passkey is registered.",
	"removed":   "The passkey is removed.",
	"ended":     "That session ended.",
	"signedout": "Signed out everywhere.",
	"gone":      "Removed. They cannot sign in any more.",
	"told":      "Notifications are on in this browser. It has just shown a first one.",
	"untold":    "Notifications are off in that browser.",
}

// show sends a page in its frame.
func (v *visit) show(pg page) {
	if pg.status == 0 {
		pg.status = http.StatusOK
	}
	if pg.fault != nil {
		pg.status = capabilities.AsError(pg.fault).Code.Info().HTTP
	}
	writePage(v.w, v.r, pg.status, v.con.frame(v, pg))
}

// frame is the whole document.
func (c *Console) frame(v *visit, pg page) html {
	session, _ := c.opts.Sessions.Get(v.who.TokenID)
	stopped, waiting := v.glance()
	title := pg.title
	if waiting > 0 {
		title = "(" + strconv.Itoa(waiting) + ") " + title
	}
	return el("html", attrs{"lang", "en"},
		c.head(title+" – Handrail", append([]string{"live", "time", "keys", "copy", "surfaced"}, pg.modules...)...),
		el("body", attrs{"data-live", pg.live, "data-expires", expiry(session.ExpiresAt), "data-csrf", v.csrf},
			el("a", attrs{"class", "skip", "href", "#main"}, text("Skip to the page")),
			el("header", attrs{"class", "top"},
				el("a", attrs{"class", "brand", "href", "/console/"}, text("Handrail")),
				el("nav", attrs{"aria-label", "Pages"}, el("ul", nil, each(places, func(at place) html {
					if !v.offers(at.route) {
						return html{}
					}
					a := attrs{"href", at.address, "data-does", at.route}
					if at.address == pg.here {
						a = append(a, "aria-current", "page")
					}
					badge := html{}
					if at.address == "/console/approvals" {
						badge = el("span", attrs{"id", "waiting", "class", "badge" + iff(waiting == 0, " none")}, text(strconv.Itoa(waiting)), span("hidden", text(" waiting")))
					}
					return el("li", nil, el("a", a, text(at.name), badge))
				}))),
				el("div", attrs{"class", "who"},
					el("a", attrs{"class", "me", "href", "/console/account"}, span("name", text(string(v.who.Principal))), when(string(v.who.Principal) != string(v.who.Role), span("role", text(string(v.who.Role))))),
					v.form("/console/logout", attrs{"class", "inline"}, button("quiet", "Sign out")),
				),
				el("div", attrs{"id", "switch", "class", "switchbar"}, v.stopButton(stopped)),
			),
			el("div", attrs{"id", "stopped", "class", "stopped" + iff(!stopped, " none"), "role", "status"}, when(stopped, group(
				el("strong", nil, text("Everything is stopped.")), text(" No call runs until somebody resumes. "), link("/console/stop", text("Go to Stop"))))),
			el("main", attrs{"id", "main", "tabindex", "-1"},
				el("h1", nil, text(pg.title)),
				when(pg.lead.s != "", el("p", class("lead"), pg.lead)),
				el("div", attrs{"id", "outcome", "role", "status"}, v.outcome(pg)),
				pg.stage,
				el("div", attrs{"id", "live"}, pg.body),
			),
			el("div", attrs{"id", "announce", "class", "hidden", "role", "status", "aria-live", "polite"}),
			el("div", attrs{"id", "ending", "class", "ending none", "role", "alert"}),
			el("footer", nil, when(c.opts.Version != "", span("version", text("Handrail "+c.opts.Version))), span("site", textf("Site %s", c.opts.Site)), v.way("GET /v1/stop", "/console/stop", nil, text("Stop switch")), el("span", attrs{"id", "link", "class", "hidden", "role", "status"})),
		))
}

// stopButton is on every page, at the right of the bar: it stops everything at once. The key s
// leads to it.
func (v *visit) stopButton(stopped bool) html {
	if stopped {
		return v.way("POST /v1/resume", "/console/stop", attrs{"class", "button", "id", "stop"}, text("Resume"))
	}
	return v.control("POST /v1/stop", "/console/stop", attrs{"class", "inline"},
		button("danger solid", "Stop", "id", "stop", "title", "Stop everything now (key: s, then Enter)", "aria-keyshortcuts", "s"))
}

func (c *Console) head(title string, modules ...string) html {
	return el("head", nil,
		void("meta", attrs{"charset", "utf-8"}),
		void("meta", attrs{"name", "viewport", "content", "width=device-width, initial-scale=1"}),
		void("meta", attrs{"name", "color-scheme", "content", "light dark"}),
		el("title", nil, text(title)),
		void("link", attrs{"rel", "icon", "href", c.assets["mark.svg"].address}),
		void("link", attrs{"rel", "stylesheet", "href", c.assets["console.css"].address}),
		each(modules, func(name string) html {
			return el("script", attrs{"type", "module", "src", c.assets[name+".js"].address})
		}))
}

// glance is what every page tells: whether everything is stopped, and how many questions wait.
// Parts that the visitor may not see are not told.
func (v *visit) glance() (stopped bool, waiting int) {
	var state stopState
	if v.get(api("stop"), &state) == nil {
		stopped = state.Stopped
	}
	var list struct {
		Approvals []struct{} `json:"approvals"`
	}
	if v.get(api("approvals"), &list) == nil {
		waiting = len(list.Approvals)
	}
	return stopped, waiting
}

// outcome says what a change did, or why it did not happen.
func (v *visit) outcome(pg page) html {
	if pg.fault != nil {
		return group(fault(pg.fault), pg.remedy)
	}
	if said := outcomes[v.r.URL.Query().Get("done")]; said != "" {
		return el("p", class("done"), text(said))
	}
	return html{}
}

// inPages words what a hint asks for as the page that shows it.
var inPages = map[capabilities.Action]func() html{
	capabilities.ActionListNodes: func() html { return group(link("/console/nodes", text("Devices")), text(" shows the devices.")) },
	capabilities.ActionListDevices: func() html {
		return group(link("/console/nodes", text("Devices")), text(" shows what each device has."))
	},
}

// hintOf is an error's hint in the console's words.
func hintOf(view front.ErrorView) html {
	if words := inPages[view.Action]; words != nil {
		return words()
	}
	return text(view.Hint)
}

// fault is an error as people read it: what, and what to do.
func fault(err error) html {
	if err == nil {
		return html{}
	}
	view := front.ViewError(err)
	return el("div", attrs{"class", "fault", "role", "alert"},
		p(el("strong", nil, text("That did not work. ")), text(sentence(view.Message))),
		when(view.Hint != "", p(hintOf(view))), p(span("faint", text(string(view.Code)))))
}

// sentence is a message as people read it: it begins with a capital, unless its first
// word is a name of something, and ends with a stop.
func sentence(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if first != "" && strings.Trim(first, "abcdefghijklmnopqrstuvwxyz") == "" {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	if s != "" && !strings.ContainsAny(s[len(s)-1:], ".!?:;)") {
		s += "."
	}
	return s
}

// form is a form that changes something.
func (v *visit) form(action string, a attrs, kids ...html) html {
	return el("form", append(attrs{"method", "post", "action", action}, a...),
		append([]html{void("input", attrs{"type", "hidden", "name", front.CSRFField, "value", v.csrf})}, kids...)...)
}

func button(c, label string, more ...string) html {
	return el("button", append(attrs{"class", c, "type", "submit"}, more...), text(label))
}

// empty is what a list says that has nothing: what to do next.
func empty(title string, next html) html {
	return div("empty", el("h2", nil, text(title)), el("p", nil, next))
}

// fact is a row of a list of names and values.
type fact struct {
	name  string
	value html
}

func facts(rows ...fact) html {
	return el("dl", class("facts"), each(rows, func(f fact) html {
		if f.value.s == "" {
			return html{}
		}
		return el("div", nil, el("dt", nil, text(f.name)), el("dd", nil, f.value))
	}))
}

// nothing is every address below the console that is no page.
func (c *Console) nothing(v *visit) {
	v.show(page{title: "Nothing here", status: http.StatusNotFound, body: empty("There is no such page", group(text("Go to "), link("/console/", text("the first page")), text(".")))})
}

func expiry(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return strconv.FormatInt(t.UnixMilli(), 10)
}

func iff(holds bool, s string) string {
	if holds {
		return s
	}
	return ""
}

func itoa(n int) string { return strconv.Itoa(n) }
