package console

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
)

// shownSignIn is a sign-in at the authorization server of an MCP server.
type shownSignIn struct {
	*visit
	api.SignIn
}

// leaving is the page from which the browser goes to an authorization server.
type leaving struct {
	*visit
	Started api.StartedSignIn
}

// beginSignIn sends the browser to the authorization server. A form may not lead it elsewhere
// (form-action of pagePolicy): the page that answers does, and says where.
func (c *Console) beginSignIn(v *visit) {
	f := v.r.PostForm
	in := api.BeginSignIn{
		Name: strings.TrimSpace(f.Get("name")), Server: strings.TrimSpace(f.Get("server")), Client: strings.TrimSpace(f.Get("client")),
	}
	in.Net = strings.FieldsFunc(f.Get("net"), func(r rune) bool { return r == ',' || r == ' ' })
	var started api.StartedSignIn
	if err := v.ask(http.MethodPost, v1("sign-ins"), in, &started); err != nil {
		v.showProviders(err)
		return
	}
	if u, err := url.Parse(started.Address); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		v.showProviders(capabilities.Errorf(capabilities.CodeInternal, "the authorization server has no address for browsers"))
		return
	}
	v.w.Header().Set("Refresh", "5; url="+started.Address)
	v.show(page{name: "leaving", title: "Sign in", here: "/console/providers", data: leaving{v, started}})
}

// sentBack takes a browser that comes from an authorization server, without its session: the
// cookie goes with what pages of our own ask for. It does nothing but have one of them ask.
func (c *Console) sentBack(w http.ResponseWriter, r *http.Request) {
	c.goOn(w, r, front.SignInPath+url.PathEscape(r.PathValue("place"))+"/finish")
}

// goOn has the browser ask a page of ours for what an authorization server sent it with.
func (c *Console) goOn(w http.ResponseWriter, r *http.Request, to string) {
	q := url.Values{}
	for _, name := range []string{"state", "code", "iss", "error"} {
		if value := r.URL.Query().Get(name); len(value) <= 4<<10 {
			q.Set(name, value)
		}
	}
	w.Header().Set("Refresh", "0; url="+to+"?"+q.Encode())
	c.write(w, r, http.StatusOK, "back", nil)
}

// finishSignIn takes what the authorization server sent, as the session that began.
func (c *Console) finishSignIn(v *visit) {
	q := v.r.URL.Query()
	in := api.FinishSignIn{
		Place: v.r.PathValue("place"), State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error"),
	}
	if err := v.ask(http.MethodPost, v1("sign-ins", "finish"), in, &api.SignIn{}); err != nil {
		v.showProviders(err)
		return
	}
	v.seeOther("/console/providers", "signedin")
}

func (c *Console) endSignIn(v *visit) {
	if err := v.ask(http.MethodDelete, v1("sign-ins", v.r.PathValue("name")), nil, nil); err != nil {
		v.showProviders(err)
		return
	}
	v.seeOther("/console/providers", "changed")
}
