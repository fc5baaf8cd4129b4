package console

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"rsc.io/qr"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/pairing"
)

// device is a node as REST shows it.
type device struct{ api.Node }

func (c *Console) nodes(v *visit) { v.showNodes(nil, nil) }

func (v *visit) showNodes(problem error, made *madePaste) {
	var list struct {
		Nodes []device `json:"nodes"`
	}
	if err := v.get(v1("nodes"), &list); err != nil {
		v.show(page{name: "problem", title: "Devices", here: "/console/nodes", fault: err})
		return
	}
	shown := nodesPage{visit: v, Made: made}
	label, labels := v.r.URL.Query().Get("label"), map[string]int{}
	for _, d := range list.Nodes {
		card := deviceCard{v, d}
		switch d.State {
		case string(pairing.StatePending):
			shown.Waiting = append(shown.Waiting, card)
		case string(pairing.StateApproved):
			shown.Paired++
			for _, l := range d.Labels {
				labels[l]++
			}
			if label == "" || slices.Contains(d.Labels, label) {
				shown.In = append(shown.In, card)
			}
		default:
			shown.Out = append(shown.Out, card)
		}
	}
	if len(labels) > 0 {
		shown.Groups = append(shown.Groups, deviceGroup{"All", "/console/nodes", shown.Paired, label == ""})
	}
	for _, l := range slices.Sorted(maps.Keys(labels)) {
		shown.Groups = append(shown.Groups, deviceGroup{l, "/console/nodes?" + query("label", l), labels[l], label == l})
	}
	v.show(page{name: "nodes", title: "Devices", here: "/console/nodes", live: "node", fault: problem, data: shown})
}

type nodesPage struct {
	*visit
	Made             *madePaste
	Waiting, In, Out []deviceCard // those that want to join, are paired and have the label, were refused or removed
	Paired           int          // with any label
	Groups           []deviceGroup
}

// deviceGroup are the devices with a label, which policy can name, too.
type deviceGroup struct {
	Name, Href string
	Devices    int
	Here       bool
}

// deviceCard is a device with what the visitor can do about it.
type deviceCard struct {
	*visit
	device
}

// Called is its name.
func (d device) Called() string { return orElse(d.Label, d.Host) }

// System is what it runs.
func (d device) System() string { return strings.TrimSpace(d.Platform + " " + d.Arch) }

// Offered is how much it said at joining that it can do.
func (d device) Offered() int { return len(d.Offers) }

// Ready is how many of its capabilities are.
func (d device) Ready() int {
	ready := 0
	for _, c := range d.Capabilities {
		if c.Available {
			ready++
		}
	}
	return ready
}

// NotReady says in words why a capability is not.
func (d device) NotReady(why capabilities.Reason) string {
	return strings.ReplaceAll(orElse(string(why), "not ready"), "_", " ")
}

// Word is how it stands.
func (d device) Word() string {
	switch {
	case d.Stopped:
		return "stopped at the device"
	case d.Connected:
		return "connected"
	}
	return "away"
}

// Way is how it is connected.
func (d device) Way() string {
	switch {
	case !d.Connected:
		return ""
	case d.Transport == "tcp":
		return "by TCP, since UDP does not get through"
	case d.Transport == "websocket":
		return "by a WebSocket, since UDP does not get through"
	}
	return "by QUIC"
}

// Mood is the class of its word.
func (d device) Mood() string {
	switch {
	case d.Stopped:
		return "bad"
	case d.Connected:
		return "good"
	}
	return "no"
}

// AllLabels are its labels as people type them.
func (d device) AllLabels() string { return strings.Join(d.Labels, " ") }

// AllowedTools are the tools that its allowlist permits, as people type them.
func (d device) AllowedTools() string { return strings.Join(toolNames(d.Allow), "\n") }

// wanted is what a device offers and may not.
type wanted struct {
	Capability capabilities.CapabilityID
	Tool       string
}

// WantedTools is what it offers beside what it may, for who edits the list.
func (d device) WantedTools() []wanted {
	all := make([]wanted, len(d.Wants))
	for i, w := range d.Wants {
		all[i] = wanted{w, toolName(string(w))}
	}
	return all
}

// Idle is what the list allows it and it has not.
func (d device) Idle() []string {
	var idle []string
	for _, a := range d.Allow {
		base, all := strings.CutSuffix(a, "*")
		if len(d.Capabilities) > 0 && !slices.ContainsFunc(d.Capabilities, func(c api.Capability) bool {
			return c.Reason != capabilities.ReasonNotAdvertised &&
				(string(c.Capability) == a || all && strings.HasPrefix(string(c.Capability), base))
		}) {
			idle = append(idle, toolName(a))
		}
	}
	return idle
}

// Live is what it can show live.
func (d deviceCard) Live() []liveLink { return d.watchLinks(d.device, "") }

// madePaste is a pairing code that was just made: it is shown this once.
type madePaste struct {
	Expires     time.Time
	Code        once
	HereOnly    bool   // only the gateway's own machine can use it
	Fingerprint string // of this page's certificate; empty if it has none of the gateway's own
	QR          *qrPath
}

func (c *Console) pair(v *visit) {
	var made api.Invited
	if err := v.ask(http.MethodPost, v1("invites"), api.NewInvite{Label: strings.TrimSpace(v.r.PostForm.Get("label"))}, &made); err != nil {
		v.showNodes(err, nil)
		return
	}
	var site api.Status
	_ = v.get(v1("status"), &site) // without it the paste is as good
	v.showNodes(nil, &madePaste{
		Expires: made.ExpiresAt, Code: once{"paste-code", "Pairing code", made.Paste}, HereOnly: onlyHere(made.Paste),
		Fingerprint: site.Fingerprint, QR: qrOf(strings.ToUpper(made.Paste)), // it packs capitals denser; case does not matter
	})
}

// onlyHere reports whether a pairing code names no address that another machine can reach.
func onlyHere(code string) bool {
	p, err := pairing.ParsePaste(code)
	return err == nil && p.OnlyHere()
}

// qrPath is a QR code as one path: black on white whatever the page's colours are.
type qrPath struct {
	Side int
	Path string
}

// qrOf draws a QR code; nil if the text is too long for one.
func qrOf(s string) *qrPath {
	q, err := qr.Encode(s, qr.L)
	if err != nil {
		return nil
	}
	var path strings.Builder
	for y := range q.Size {
		for x := range q.Size {
			if q.Black(x, y) {
				path.WriteString("M" + itoa(x+4) + " " + itoa(y+4) + "h1v1h-1z")
			}
		}
	}
	return &qrPath{q.Size + 8, path.String()}
}

func (c *Console) changeNode(v *visit) {
	id := v.r.PathValue("node")
	form := v.r.PostForm
	var err error
	switch form.Get("do") {
	case "approve":
		err = v.ask(http.MethodPost, v1("nodes", id, "approve"), api.NodeApproval{}, nil)
	case "deny", "revoke":
		err = v.ask(http.MethodPost, v1("nodes", id, form.Get("do")), api.Reason{Reason: form.Get("reason")}, nil)
	case "widen":
		var d device
		if err = v.get(v1("nodes", id), &d); err == nil {
			allow := d.Allow
			for _, w := range d.Wants { // of what it wants now, and no more than was looked at
				if slices.Contains(form["want"], string(w)) {
					allow = append(allow, string(w))
				}
			}
			allow = slices.Compact(slices.Sorted(slices.Values(allow)))
			err = v.ask(http.MethodPatch, v1("nodes", id), api.NodeChange{Allow: &allow}, nil)
		}
	case "save":
		label, labels, allow := form.Get("label"), fields(form.Get("labels")), allowList(form.Get("allow"))
		err = v.ask(http.MethodPatch, v1("nodes", id), api.NodeChange{Label: &label, Labels: &labels, Allow: &allow}, nil)
	case "owner":
		owner := capabilities.PrincipalID(form.Get("owner"))
		err = v.ask(http.MethodPatch, v1("nodes", id), api.NodeChange{Owner: &owner}, nil)
	default:
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "the form names no change")
	}
	if err != nil {
		v.showNodes(err, nil)
		return
	}
	if form.Get("do") == "approve" {
		v.seeOther("/console/nodes", "approved")
		return
	}
	v.seeOther("/console/nodes", "changed")
}

// People read and write the names of tools everywhere; an allowlist holds the capabilities that
// stand behind them (S0-01).
const (
	toolPrefix       = "tool."
	capabilityPrefix = "tyrum."
)

// toolName is the tool, or the pattern of tools, that an entry of an allowlist permits.
func toolName(entry string) string {
	if rest, ok := strings.CutPrefix(entry, capabilityPrefix); ok {
		return toolPrefix + rest
	}
	return entry
}

func toolNames(entries []string) []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = toolName(e)
	}
	return names
}

// allowList is what a person typed, as an allowlist holds it.
func allowList(typed string) []string {
	entries := fields(typed)
	for i, e := range entries {
		if rest, ok := strings.CutPrefix(e, toolPrefix); ok {
			entries[i] = capabilityPrefix + rest
		}
	}
	return entries
}

// fields splits what a person typed; never nil, which would mean no change.
func fields(s string) []string { return append([]string{}, strings.Fields(s)...) }
