package console

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
)

// Bounds of what the first page lists.
const (
	maxHomeWaits   = 5
	maxHomeRuns    = 5
	maxHomeDevices = 3
)

// homePage is the first page: what waits, what runs, what is unwell, and what is still to be set
// up.
type homePage struct {
	*visit
	Waits     []question // the oldest of them
	MoreWaits int
	Runs      []callRow
	Unwell    []ailment
	Devices   []homeDevice
	Steps     []homeStep // of setting up; none: all is set up, or it is not the visitor's to do
	Tried     *tried     // what a first call returned; nil: none was made just now
}

// ailment is something that is not as it should be, and the page that tells more.
type ailment struct{ Text, Address, Link string }

// homeDevice is a connected device with what agents can do by it, in words.
type homeDevice struct {
	device
	Can []canDo
}

// canDo is what a device offers of one family of tools.
type canDo struct {
	Does    string
	Ready   bool
	Because string  // where it is not
	Rules   []ruled // what policy says of its tools that are ready; none: the visitor may not ask
}

// ruled is what policy says of some tools of a family.
type ruled struct{ Word, Mood string }

// homeStep is one step of setting up.
type homeStep struct {
	Name, Says, Address, Link string
	Done                      bool
	Tries                     bool          // a button makes a first call
	Clients                   []localClient // buttons connect these
}

// Word is how it stands.
func (s homeStep) Word() string {
	if s.Done {
		return "done"
	}
	return "to do"
}

// Mood is the class of its word.
func (s homeStep) Mood() string {
	if s.Done {
		return "good"
	}
	return "busy"
}

func (c *Console) home(v *visit) { c.showHome(v, nil, nil) }

func (c *Console) showHome(v *visit, problem error, tried *tried) {
	p := homePage{visit: v, Tried: tried}
	var waits api.ApprovalList
	if err := v.get(v1("approvals"), &waits); err != nil {
		v.show(page{name: "problem", title: "Home", here: "/console/", fault: err})
		return
	}
	for i := range waits.Approvals[:min(len(waits.Approvals), maxHomeWaits)] {
		p.Waits = append(p.Waits, question{visit: v, Approval: waits.Approvals[i]})
	}
	p.MoreWaits = len(waits.Approvals) - len(p.Waits)
	running, err := v.callsOf(url.Values{"state": {"running"}, "limit": {strconv.Itoa(maxHomeRuns)}})
	for _, one := range running {
		p.Runs = append(p.Runs, callRow{v, one})
	}
	var known struct {
		Nodes []device `json:"nodes"`
	}
	if problem := v.get(v1("nodes"), &known); err == nil {
		err = problem
	}
	p.Unwell = slices.Concat(v.unwellDevices(known.Nodes), v.unwellDrift())
	for _, d := range known.Nodes {
		if d.State != string(pairing.StateApproved) || !d.Connected || len(p.Devices) == maxHomeDevices {
			continue
		}
		if can := d.offered(v.ruledOn(d.ID)); len(can) > 0 {
			p.Devices = append(p.Devices, homeDevice{d, can})
		}
	}
	p.Steps = v.steps(known.Nodes)
	if problem != nil {
		err = problem
	}
	v.show(page{name: "home", title: "Home", here: "/console/", live: "approval call node", fault: err, data: p})
}

// entered leads on whoever has just signed in.
func (c *Console) entered(v *visit) {
	if _, waiting := v.glance(); waiting > 0 {
		v.seeOther("/console/approvals", "")
		return
	}
	v.seeOther("/console/", "")
}

// unwellDevices says which devices are not as they should be.
func (v *visit) unwellDevices(all []device) (list []ailment) {
	for _, d := range all {
		text := ""
		switch {
		case d.State == string(pairing.StatePending):
			text = d.Called() + " wants to join, and waits for a person to let it in."
		case d.State != string(pairing.StateApproved):
		case d.Stopped:
			text = d.Called() + " is stopped at the device: it carries nothing out until somebody resumes it there."
		case !d.Connected:
			text = d.Called() + " is away: its program does not run, or does not reach this gateway."
		case d.CatalogSkew:
			text = d.Called() + " runs another version than this gateway, so some of its tools may be refused."
		}
		if text != "" {
			list = append(list, ailment{text, "/console/nodes", "Devices"})
		}
	}
	return list
}

// unwellDrift says what calls did that they were not granted, and nobody has looked at.
func (v *visit) unwellDrift() (list []ailment) {
	var found api.DriftList
	if v.get(v1("drift"), &found) != nil {
		return nil
	}
	for _, one := range []struct {
		n          int
		one, other string
	}{
		{len(found.Events), "call did something that it was not granted.", "calls did something that they were not granted."},
		{len(found.Quarantined), "runner is in quarantine: it takes no calls.", "runners are in quarantine: they take no calls."},
		{len(found.Restricted), "tool is restricted: nobody can call it.", "tools are restricted: nobody can call them."},
	} {
		if one.n > 0 {
			list = append(list, ailment{count(one.n, one.one, one.other), "/console/drift", "Drift"})
		}
	}
	return list
}

// ruledOn says what policy says of an agent's calls on a device, tool by tool; nil: the visitor may
// not ask it.
func (v *visit) ruledOn(node capabilities.NodeID) map[capabilities.ToolID]string {
	var says api.NodePolicy
	if !v.Offers("GET /v1/nodes/{node}/policy") || v.get(v1("nodes", string(node), "policy"), &says) != nil {
		return nil
	}
	rules := map[capabilities.ToolID]string{}
	for _, t := range says.Tools {
		rules[t.Tool] = t.Effect
	}
	return rules
}

// rulings are what policy can say, the most lenient first.
var rulings = []struct{ effect, word, mood string }{
	{"allow", "without asking", "good"}, {"ask", "with a person's yes", "busy"}, {"deny", "refused by policy", "no"},
}

// inWords says how many tools policy rules in which way.
func inWords(counts map[string]int) (list []ruled) {
	for _, r := range rulings {
		n := counts[r.effect]
		switch {
		case n == 0:
		case len(counts) == 1:
			list = append(list, ruled{r.word, r.mood})
		default:
			list = append(list, ruled{count(n, "tool ", "tools ") + r.word, r.mood})
		}
	}
	return list
}

// offered says what agents can do by a device, family by family: the ready ones first. rules are
// what policy says of each tool.
func (d device) offered(rules map[capabilities.ToolID]string) (list []canDo) {
	at, counts := map[string]int{}, map[string]map[string]int{}
	for _, c := range d.Capabilities {
		name := c.Tool.Family()
		does := familyWords[name]
		if does == "" {
			continue
		}
		i, there := at[name]
		if !there {
			i = len(list)
			at[name] = i
			list = append(list, canDo{Does: does, Because: d.NotReady(c.Reason)})
		}
		if c.Available {
			list[i].Ready, list[i].Because = true, ""
			if effect := rules[c.Tool]; effect != "" {
				if counts[name] == nil {
					counts[name] = map[string]int{}
				}
				counts[name][effect]++
			}
		}
	}
	for name, i := range at {
		list[i].Rules = inWords(counts[name])
	}
	slices.SortStableFunc(list, func(a, b canDo) int {
		switch {
		case a.Ready == b.Ready:
			return 0
		case a.Ready:
			return -1
		}
		return 1
	})
	return list
}

// steps are those of setting up that the visitor may take, until all are done.
func (v *visit) steps(devices []device) []homeStep {
	var list []homeStep
	a := accountPage{visit: v}
	if v.who.Role != principal.RoleViewer && passkeysAt(v.r) == nil && v.get(v1("account"), &a.Account) == nil {
		list = append(list, homeStep{
			Name:    "Add a passkey",
			Says:    "With one you sign in without a link, and can allow things from this device while an agent has its mouse.",
			Address: "/console/account#passkeys", Link: "Add a passkey", Done: len(a.Passkeys) > 0,
		})
	}
	if v.Offers("POST /v1/invites") {
		list = append(list, homeStep{
			Name: "Pair a device", Says: "A device offers its browser, desktop, files and sensors, as far as you allow it.",
			Address: "/console/nodes", Link: "Pair a device",
			Done: slices.ContainsFunc(devices, func(d device) bool { return d.State == string(pairing.StateApproved) }),
		})
	}
	var tokens api.TokenList
	if v.Offers("POST /v1/tokens") && v.get(v1("tokens"), &tokens) == nil {
		client, called := v.clients(tokens.Tokens)
		here, link := v.connectableHere(), "Connect a client"
		if len(here) > 0 {
			link = "Another client"
		}
		list = append(list, homeStep{
			Name: "Connect a client", Says: "Claude, an editor, or any program that speaks MCP gets an address and a token of its own.",
			Address: "/console/tokens#connect", Link: link, Done: client != "", Clients: here,
		}, homeStep{
			Name: "Try it", Says: "The button makes a harmless call and shows what came back. Then ask your client: " +
				"“Open example.com in the browser and tell me its heading.” The call appears here while it runs.",
			Address: "/console/calls", Link: "See the calls", Done: called, Tries: v.Offers("POST /v1/calls"),
		})
	}
	var push api.Push
	if v.get(v1("account", "push"), &push) == nil && push.Key != "" {
		says := "Sign in there, add this page to the home screen, and switch notices on: questions then reach you anywhere."
		if v.hereOnly() {
			says = "This gateway listens to its own machine alone. Start it with --http :7480 --tls-generated, and sign in on the phone by " +
				"handrail login --qr. Notices need an address with a certificate of an authority."
		}
		list = append(list, homeStep{
			Name: "Be told on your phone", Says: says, Address: "/console/account#notices", Link: "Switch on notices",
			Done: len(push.Subscriptions) > 0,
		})
	}
	if !slices.ContainsFunc(list, func(s homeStep) bool { return !s.Done }) {
		return nil
	}
	return list
}

// hereOnly reports whether no other device reaches the gateway.
func (v *visit) hereOnly() bool {
	var site api.Status
	return v.get(v1("status"), &site) == nil && onThisMachine(site.MCPURL)
}

// connectableHere are the clients on the gateway's machine that the visitor can connect by a button
// and has not.
func (v *visit) connectableHere() []localClient {
	return slices.DeleteFunc(v.clientsHere(), func(c localClient) bool { return c.Connected })
}

// tried is a first call and what it returned.
type tried struct {
	Tool, Call, Text string
}

// firstTool is the tool of a first call: it changes nothing, needs no device, and says something
// that the visitor can check.
const firstTool = capabilities.ToolID("tool.node.list")

// try makes a first call in the visitor's name, and shows its result.
func (c *Console) try(v *visit) {
	var result capabilities.Result
	err := v.ask(http.MethodPost, v1("calls"), api.MakeCall{Tool: firstTool, Args: json.RawMessage(`{}`)}, &result)
	if err == nil && result.Status != capabilities.StatusOK {
		err = (&api.Error{Code: result.Code, Message: result.Message, Hint: result.Hint, Action: result.Action}).Err()
	}
	if err != nil {
		c.showHome(v, err, nil)
		return
	}
	var text bytes.Buffer
	if json.Indent(&text, result.Output, "", "  ") != nil {
		text.Reset()
		text.Write(result.Output)
	}
	c.showHome(v, nil, &tried{Tool: string(firstTool), Call: string(result.Call), Text: text.String()})
}

// clients returns one of the clients that were connected, if any, and whether one has called.
func (v *visit) clients(tokens []api.Token) (client capabilities.PrincipalID, called bool) {
	now, asked := v.con.opts.Now(), 0
	for _, t := range tokens {
		if t.Role != string(principal.RoleAgent) || t.Principal == ownAgent || !t.RevokedAt.IsZero() ||
			!t.ExpiresAt.IsZero() && now.After(t.ExpiresAt) {
			continue
		}
		client = t.Principal
		if asked++; called || asked > maxHomeDevices {
			continue
		}
		calls, err := v.callsOf(url.Values{"principal": {string(t.Principal)}, "limit": {"1"}})
		called = err == nil && len(calls) > 0
	}
	return client, called
}

// ownAgent is whom the token in the gateway's own data directory stands for: it is there from the
// start.
const ownAgent = "agent"
