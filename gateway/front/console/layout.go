package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// page is what one page shows; the frame around it is the same for all.
type page struct {
	name  string // of its template
	title string
	here  string // the address of its place in the menu
	// live names the events that change the page; "" if none does.
	live    string
	status  int // default 200
	fault   error
	remedy  *remedy  // beside fault: what the visitor can do about it here
	modules []string // beside those of every page
	data    any      // of its template
}

// place is an entry of the menu, shown to whom the REST surface would show it.
type place struct{ Name, Address, Route string }

var places = []place{
	{"Home", "/console/", "GET /v1/approvals"},
	{"Approvals", "/console/approvals", "GET /v1/approvals"},
	{"Calls", "/console/calls", "GET /v1/calls"},
	{"Devices", "/console/nodes", "GET /v1/nodes"},
	{"Tools", "/console/tools", "GET /v1/tools"},
	{"Grants", "/console/grants", "GET /v1/grants"},
	{"Policies", "/console/policies", "GET /v1/policy"},
	{"Providers", "/console/providers", "GET /v1/providers"},
	{"Secrets", "/console/secrets", "GET /v1/secrets"},
	{"Agents", "/console/tokens", "GET /v1/tokens"},
	{"Worker", "/console/jobs", "GET /v1/jobs"},
	{"People", "/console/people", "GET /v1/users"},
	{"Governance", "/console/governance", "GET /v1/governance/kpis"},
	{"Ledger", "/console/ledger", "GET /v1/ledger/packets"},
}

// outcomes are what a page says after something was done. The address names one of
// them, so that nobody else's words get onto a page by a link.
var outcomes = map[string]string{
	"allowed":  "Allowed. The waiting call goes on.",
	"denied":   "Denied. The agent was told.",
	"resumed":  "Calls may run again. Grants from before the stop stay revoked.",
	"stopped":  "Everything is stopped.",
	"changed":  "Saved.",
	"approved": "Approved. Run handrail node on the device now; it appears below as connected.",
	"granted":  "Granted. It ends by itself.",
	"taken":    "Taken back. The next such call asks again.",
	"signedin": "Signed in. Its token is kept among the secrets and refreshed.",
	"written":  "Written. This is the call that did it.",
	"asked":    "A person is asked about it first.",
	"extended": "You stay signed in.",

	"resolved":    "Resolved. It raises no risk any more.",
	"resolvedall": "Resolved. They raise no risk any more.",
	"lifted":      "Lifted. It takes calls again.",
	"reviewed":    "Approved. The tool can be called again.",

	"activated": "Activated. It counts from now on.",
	"staged":    "Staged. It decides nothing until it is activated.",
	"revoked":   "Revoked. Its running calls have ended.",
	"looks":     "It may look again where it pasted the secret.",
	"cancelled": "The call was ended. Its effects from before that stay.",
	"longer":    "There is more time for it.",
	"password":  "The password is set. Your other sessions ended.",
	"passkey":   "The passkey is registered.",
	"removed":   "The passkey is removed.",
	"ended":     "That session ended.",
	"signedout": "Signed out everywhere.",
	"gone":      "Removed. They cannot sign in any more.",
	"queued":    "Queued. A worker does it when it is due.",
	"forgotten": "Forgotten. Its words are gone.",
	"factgone":  "Forgotten. It is overwritten on the disk.",

	"cancelling":   "Its worker ends it.",
	"jobcancelled": "Cancelled, with its schedule.",

	"told":   "Notifications are on in this browser. It has just shown a first one.",
	"untold": "Notifications are off in that browser.",
}

// screen is a page in its frame, as the template of the frame reads it.
type screen struct {
	*visit
	Title, Heading, Here, Live, Expires string
	Modules                             []string
	Places                              []place
	Me, Role                            string
	Stopped                             bool
	Waiting                             int
	Fault                               *fault
	Remedy                              *remedy
	Done                                string // what a change did
	Version, Site                       string
	Data                                any
}

// show sends a page in its frame.
func (v *visit) show(pg page) {
	if pg.status == 0 {
		pg.status = http.StatusOK
	}
	if pg.fault != nil {
		pg.status = capabilities.AsError(pg.fault).Code.Info().HTTP
	}
	v.con.write(v.w, v.r, pg.status, pg.name, v.screen(pg))
}

func (v *visit) screen(pg page) screen {
	session, _ := v.con.opts.Sessions.Get(v.who.TokenID)
	stopped, waiting := v.glance()
	title := pg.title
	if waiting > 0 {
		title = "(" + strconv.Itoa(waiting) + ") " + title
	}
	return screen{
		visit: v, Title: title, Heading: pg.title, Here: pg.here, Live: pg.live, Expires: expiry(session.ExpiresAt),
		Modules: append([]string{"live", "time", "keys", "copy", "surfaced"}, pg.modules...), Places: places,
		Me: string(v.who.Principal), Role: string(v.who.Role), Stopped: stopped, Waiting: waiting,
		Fault: faultOf(pg.fault), Remedy: pg.remedy, Done: outcomes[v.r.URL.Query().Get("done")],
		Version: v.con.opts.Version, Site: string(v.con.opts.Site), Data: pg.data,
	}
}

// Offers reports whether the visitor could use a route of the REST surface.
func (v *visit) Offers(route string) bool { return v.con.opts.API.Offers(v.who, route) }

// CSRF is what the visitor's forms carry, in a field named CSRFField.
func (v *visit) CSRF() string { return v.csrf }

// CSRFField is the name of that field.
func (v *visit) CSRFField() string { return front.CSRFField }

// Asset is the address of a file of the pages.
func (v *visit) Asset(name string) string { return v.con.assets[name].address }

// glance is what every page tells: whether everything is stopped, and how many questions wait.
// Parts that the visitor may not see are not told.
func (v *visit) glance() (stopped bool, waiting int) {
	var state api.Stop
	if v.get(v1("stop"), &state) == nil {
		stopped = state.Stopped
	}
	var list struct {
		Approvals []struct{} `json:"approvals"`
	}
	if v.get(v1("approvals"), &list) == nil {
		waiting = len(list.Approvals)
	}
	return stopped, waiting
}

// fault is an error as people read it: what, and what to do.
type fault struct {
	Message, Hint string
	Way           way // how Hint is done from here
	Code          capabilities.Code
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	view := front.ViewError(err)
	e := view.Err()
	return &fault{Message: sentence(view.Message), Hint: e.Hint, Way: wayOf(e.Action), Code: view.Code}
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

// nothing is every address below the console that is no page.
func (c *Console) nothing(v *visit) {
	v.show(page{name: "nothing", title: "Nothing here", status: http.StatusNotFound})
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
