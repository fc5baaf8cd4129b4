package console

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// The request that a passkey can confirm is read from its form in one function, which both the
// question to the passkey and the request itself are made of.

// request is what a form asks of the REST surface.
type request struct {
	target string
	in     any
}

// requests are the forms that a passkey can confirm, by the name in /console/confirm/.
var requests = map[string]func(url.Values) (request, error){
	"token":    tokenWanted,
	"client":   clientWanted,
	"grant":    grantWanted,
	"activate": activationWanted,
	"resume":   resumeWanted,
	"drift":    driftWanted,
	"oauth":    oauthWanted,
}

// confirm is what a passkey is asked about one of them.
func (c *Console) confirm(v *visit) {
	read := requests[v.r.PathValue("what")]
	if read == nil {
		front.WriteError(v.w, capabilities.Errorf(capabilities.CodeNotFound, "a passkey confirms nothing of that kind"))
		return
	}
	wanted, err := read(v.r.PostForm)
	if err != nil {
		front.WriteError(v.w, err)
		return
	}
	body, err := json.Marshal(wanted.in)
	if err != nil {
		front.WriteError(v.w, capabilities.Wrap(capabilities.CodeInternal, err, ""))
		return
	}
	v.answerJSON(v1("confirmations"), api.Confirm{Method: http.MethodPost, Path: wanted.target, Body: body})
}

// sends has the REST surface do what the form asks, with what a passkey answered, if it did.
func (v *visit) sends(what string, out any) error {
	wanted, err := requests[what](v.r.PostForm)
	if err != nil {
		return err
	}
	v.r.Header.Del(front.PasskeyHeader)
	if v.r.PostForm.Get("credential") != "" {
		got, err := credential(v.r)
		if err != nil {
			return err
		}
		v.r.Header.Set(front.PasskeyHeader, string(got))
	}
	return v.ask(http.MethodPost, wanted.target, wanted.in, out)
}

// remedy is the way to confirm with a passkey what was refused.
type remedy struct {
	*visit
	Route, Action, Options string
	Fields, Said           []pair
}

// remedy offers to confirm with a passkey what was refused, where that would do.
func (v *visit) remedy(problem error, route, options string) *remedy {
	if !capabilities.DetailsOf[capabilities.Presence](problem).Passkey {
		return nil
	}
	r := &remedy{visit: v, Route: route, Action: v.r.URL.Path, Options: options}
	for _, name := range slices.Sorted(maps.Keys(v.r.PostForm)) {
		if name == front.CSRFField || name == "credential" {
			continue
		}
		for _, typed := range v.r.PostForm[name] {
			r.Fields = append(r.Fields, pair{name, typed})
		}
	}
	for _, f := range confirmed {
		r.Said = append(r.Said, pair{f.label, strings.Join(v.r.PostForm[f.name], ", ")})
	}
	return r
}

// confirmed are the fields of such forms that a person is shown again before they confirm.
var confirmed = []struct{ name, label string }{
	{"principal", "For"}, {"client", "Client"}, {"role", "Role"}, {"tools", "Tools"}, {"tool", "Tools"}, {"lane", "Lane"}, {"days", "Days"},
	{"answer", "Answer"},
	{"minutes", "Minutes"}, {"to", "Policy"}, {"which", "Events"}, {"reason", "Reason"},
}

// byPasskey is remedy for answers to questions.
func (v *visit) byPasskey(problem error) *remedy {
	switch id := v.r.PathValue("approval"); {
	case id != "":
		return v.remedy(problem, "POST /v1/approvals/{approval}", at("approvals", id, "passkey"))
	case len(v.r.PostForm["approval"]) > 0:
		return v.remedy(problem, "POST /v1/approvals", "/console/confirm/answers")
	}
	return nil
}

// approvalsPasskey is what a passkey is asked about one answer to several questions.
func (c *Console) approvalsPasskey(v *visit) {
	in, err := v.answerFields()
	if err != nil {
		front.WriteError(v.w, err)
		return
	}
	in.Passkey = nil
	v.answerJSON(v1("confirmations", "answers"), api.AnswerApprovals{Approvals: v.r.PostForm["approval"], AnswerApproval: in})
}

func tokenWanted(f url.Values) (request, error) {
	days, err := strconv.Atoi(orElse(f.Get("days"), "30"))
	if err != nil || days < 0 || days > 3650 {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "days must be a number from 0 to 3650")
	}
	return request{v1("tokens"), api.CreateToken{
		Principal: capabilities.PrincipalID(strings.TrimSpace(f.Get("principal"))), Role: f.Get("role"),
		Lane: capabilities.LaneID(strings.TrimSpace(f.Get("lane"))), TTLSeconds: int64(days) * 24 * 3600,
	}}, nil
}

func grantWanted(f url.Values) (request, error) {
	minutes, err := strconv.Atoi(orElse(f.Get("minutes"), "5"))
	if err != nil || minutes < 1 || minutes > 60 {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "minutes must be a number from 1 to 60")
	}
	return request{v1("grants"), api.GiveGrant{
		Principal: capabilities.PrincipalID(strings.TrimSpace(f.Get("principal"))), Tools: fields(f.Get("tools")),
		Node: capabilities.NodeID(f.Get("node")), Lane: capabilities.LaneID(strings.TrimSpace(f.Get("lane"))),
		Seconds: int64(minutes) * 60, Reason: f.Get("reason"),
	}}, nil
}

func activationWanted(f url.Values) (request, error) {
	if f.Get("read") != "1" {
		return request{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "say that you have read the difference")
	}
	return request{v1("policy", "activate"), api.ActivatePolicy{To: f.Get("to"), From: f.Get("from"), Reason: f.Get("reason")}}, nil
}

func resumeWanted(f url.Values) (request, error) {
	return request{v1("resume"), api.Reason{Reason: f.Get("reason")}}, nil
}
