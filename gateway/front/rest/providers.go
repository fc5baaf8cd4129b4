package rest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/macro"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/signin"
)

// Providers are what backs tools that are not compiled in; gateway/provider implements it.
type Providers interface {
	List() []provider.Provider
	Get(name string) (provider.Provider, error)
	Lacks(p *provider.Provider) []capabilities.ToolID
	Tool(capabilities.ToolID) (provider.Provider, provider.Tool, error)
	Manifest(ctx context.Context, hash string) (tools.ToolManifest, error)
	Add(ctx context.Context, who dispatch.Caller, p tools.Provider, host capabilities.NodeID) (provider.Provider, error)
	Check(ctx context.Context, who dispatch.Caller, name string) (provider.Provider, error)
	Approve(ctx context.Context, who dispatch.Caller, name, hash string,
		choices map[capabilities.ToolID]provider.Choice) (provider.Provider, error)
	Preview(name, hash string, choices map[capabilities.ToolID]provider.Choice) (provider.Provider, error)
	Decide(ctx context.Context, who dispatch.Caller, id capabilities.ToolID, hash string, c provider.Choice) (provider.Provider, error)
	Diff(ctx context.Context, id capabilities.ToolID) (provider.Difference, error)
	Remove(ctx context.Context, who dispatch.Caller, name string) error
}

func (s *Server) providerTable() []*endpoint {
	if s.opts.Providers == nil {
		return nil
	}
	return append(s.signInTable(), []*endpoint{
		serveJSON(endpoint{
			method: get, path: "/v1/providers", action: principal.ActReadProviders,
			summary: "Providers with their tools, and what waits to be looked at",
		}, s.providers),
		serveJSON(endpoint{
			method: post, path: "/v1/providers", action: principal.ActProviders, does: "tool.admin.provider-add",
			summary: "Have a node host a provider, or take up a macro; nothing of it can be called before it is approved",
		}, s.addProvider),
		serveJSON(endpoint{
			method: get, path: "/v1/providers/{provider}", action: principal.ActReadProviders, summary: "One provider, its tools with their schemas",
		}, s.provider),
		serveJSON(endpoint{
			method: post, path: "/v1/providers/{provider}/check", action: principal.ActProviders, does: "tool.admin.provider-check",
			summary: "Ask its host what it offers now; what changed waits to be looked at",
		}, s.checkProvider),
		serveJSON(endpoint{
			method: post, path: "/v1/providers/{provider}/approve", action: principal.ActProviders, does: "tool.admin.provider-approve",
			summary: "Let its tools be called: names the manifest that was looked at; with preview, say which rules that puts in force, and " +
				"change nothing",
		}, s.approveProvider),
		serveJSON(endpoint{
			method: remove, path: "/v1/providers/{provider}", action: principal.ActProviders, does: "tool.admin.provider-remove",
			summary: "End a provider; its tools are gone at once",
		}, s.removeProvider),
		serveJSON(endpoint{
			method: get, path: "/v1/tools/{tool}/diff", action: principal.ActReadProviders,
			summary: "Compare what a provider says of a tool now with what was approved, by lines",
		}, s.toolDiff),
		serveJSON(endpoint{
			method: post, path: "/v1/tools/{tool}/state", action: principal.ActProviders, does: "tool.admin.tool-state",
			summary: "Move a provider's tool to another state of its life: names the tool's words that were looked at",
		}, s.toolState),
	}...)
}

func (s *Server) providers(*visit, none) (api.ProviderList, error) {
	list := api.ProviderList{Providers: []api.Provider{}}
	roster := s.hosts()
	for _, p := range s.opts.Providers.List() {
		list.Providers = append(list.Providers, s.viewProvider(&p, roster, false))
	}
	return list, nil
}

func (s *Server) provider(c *visit, _ none) (api.Provider, error) {
	p, err := s.opts.Providers.Get(c.r.PathValue("provider"))
	return s.shownProvider(p, err)
}

func (s *Server) shownProvider(p provider.Provider, err error) (api.Provider, error) {
	if err != nil {
		return api.Provider{}, err
	}
	return s.viewProvider(&p, s.hosts(), true), nil
}

func (s *Server) addProvider(c *visit, in api.AddProvider) (api.Provider, error) {
	p := tools.Provider{
		Name: in.Name, Kind: tools.Kind(in.Kind), Command: in.Command, URL: in.URL, Server: in.Server, Only: in.Only, Read: in.Read,
		Write: in.Write, Net: in.Net,
	}
	if p.Kind.Composed() && in.Manifest != "" { // both are YAML or JSON, with nothing that one of them lacks
		var err error
		if p.Manifest, err = macro.JSON([]byte(in.Manifest)); err != nil {
			return api.Provider{}, err
		}
	} else if in.Manifest != "" {
		if !json.Valid([]byte(in.Manifest)) {
			return api.Provider{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "manifest: is no JSON")
		}
		p.Manifest = json.RawMessage(in.Manifest)
	}
	for _, list := range []struct {
		field string
		from  []string
		to    *[]tools.Credential
	}{{"env", in.Env, &p.Env}, {"headers", in.Headers, &p.Headers}} {
		for _, pair := range list.from {
			name, ref, ok := strings.Cut(pair, "=")
			if !ok {
				return api.Provider{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: NAME=SECRET, where SECRET is a stored secret",
					list.field)
			}
			*list.to = append(*list.to, tools.Credential{Name: name, Secret: ref})
		}
	}
	added, err := s.opts.Providers.Add(c.r.Context(), front.Caller(c.who, c.who.Lane), p, in.Host)
	return s.shownProvider(added, err)
}

func (s *Server) checkProvider(c *visit, _ none) (api.Provider, error) {
	p, err := s.opts.Providers.Check(c.r.Context(), front.Caller(c.who, c.who.Lane), c.r.PathValue("provider"))
	return s.shownProvider(p, err)
}

func (s *Server) approveProvider(c *visit, in api.ApproveProvider) (api.Provider, error) {
	choices := make(map[capabilities.ToolID]provider.Choice, len(in.Tools))
	for id, choice := range in.Tools {
		choices[id] = provider.Choice{State: provider.State(choice.State), Effect: choice.Effect, Canary: choice.Canary}
	}
	if in.Preview {
		next, err := s.opts.Providers.Preview(c.r.PathValue("provider"), in.ManifestHash, choices)
		if err != nil {
			return api.Provider{}, err
		}
		now, err := s.opts.Providers.Get(next.Name)
		out, err := s.shownProvider(now, err)
		out.Rules = next.Rules()
		return out, err
	}
	p, err := s.opts.Providers.Approve(c.r.Context(), front.Caller(c.who, c.who.Lane), c.r.PathValue("provider"), in.ManifestHash, choices)
	return s.shownProvider(p, err)
}

func (s *Server) toolDiff(c *visit, _ none) (api.ToolDiff, error) {
	d, err := s.opts.Providers.Diff(c.r.Context(), capabilities.ToolID(c.r.PathValue("tool")))
	if err != nil {
		return api.ToolDiff{}, err
	}
	out := api.ToolDiff{Provider: d.Provider, ProviderTool: viewProviderTool(&d.Tool, true), Lines: d.Lines, Unseen: d.Unseen}
	s.restricted(&out.ProviderTool)
	return out, nil
}

func (s *Server) toolState(c *visit, in api.ToolDecision) (api.ProviderTool, error) {
	id := capabilities.ToolID(c.r.PathValue("tool"))
	if in.State == "" && in.Hash == "" {
		return api.ProviderTool{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"state: canary, active, restricted, deprecated or retired; hash alone approves the tool as what it was")
	}
	p, err := s.opts.Providers.Decide(c.r.Context(), front.Caller(c.who, c.who.Lane), id, in.Hash,
		provider.Choice{State: provider.State(in.State), Effect: in.Effect, Canary: in.Canary})
	if err != nil {
		return api.ProviderTool{}, err
	}
	i := slices.IndexFunc(p.Tools, func(t provider.Tool) bool { return t.Described.Tool == id })
	out := viewProviderTool(&p.Tools[i], true)
	s.restricted(&out)
	return out, nil
}

func (s *Server) removeProvider(c *visit, _ none) (api.ProviderDone, error) {
	name := c.r.PathValue("provider")
	return api.ProviderDone{Name: name, Status: "removed"}, s.opts.Providers.Remove(c.r.Context(), front.Caller(c.who, c.who.Lane), name)
}

// viewProvider is a provider as the API says it; whole: with the schemas of its tools.
func (s *Server) viewProvider(p *provider.Provider, roster []route.Node, whole bool) api.Provider {
	out := api.Provider{
		Name: p.Name, Kind: string(p.Kind), Host: p.Host, Command: p.Command, URL: p.URL, Server: p.Server, Only: p.Only, Read: p.Read,
		Write: p.Write, Net: p.Net, ManifestHash: p.Hash, By: p.By, Created: p.Created, Checked: p.Checked, Ready: true,
	}
	for _, c := range p.Env {
		out.Env = append(out.Env, c.Name+"="+c.Secret)
	}
	for _, c := range p.Headers {
		out.Headers = append(out.Headers, c.Name+"="+c.Secret)
	}
	for _, r := range p.Refused {
		out.Refused = append(out.Refused, api.RefusedTool(r))
	}
	for _, t := range p.Tried {
		out.Tried = append(out.Tried, api.TriedHost(t))
	}
	if p.Kind.Hosted() { // a host that is away says so before anything of it can be called
		out.Ready, out.Reason, out.Fix = hostReady(p, hosting, roster)
	}
	if fix := s.signInMissing(p); fix != "" && out.Ready {
		out.Ready, out.Reason, out.Fix = false, capabilities.ReasonNeedsSignIn, fix
	}
	out.Tools = make([]api.ProviderTool, 0, len(p.Tools))
	revoked := p.Kind == tools.KindSatellite && !slices.ContainsFunc(roster, func(n route.Node) bool { return n.Serves == p.Name })
	if revoked {
		no := route.NoSatellite()
		out.Ready, out.Reason, out.Fix = false, route.ReasonSatelliteRevoked, command.Hint(no.Hint, no.Action)
	}
	for i := range p.Tools {
		t := &p.Tools[i]
		one := viewProviderTool(t, whole)
		one.Callable = one.Callable && !revoked
		s.restricted(&one)
		out.Tools = append(out.Tools, one)
		if (p.Kind.Hosted() || p.Kind == tools.KindSatellite) && t.Callable() && out.Ready {
			out.Ready, out.Reason, out.Fix = hostReady(p, t.Capability, roster)
		}
	}
	if gone := s.opts.Providers.Lacks(p); len(gone) > 0 {
		out.Ready, out.Reason = false, capabilities.ReasonBackendMissing
		out.Fix = "Nobody can call " + string(gone[0]) +
			", which a step of it calls: have its provider approved or added again, or add the macro with another file."
	}
	out.Rules = p.Proposed()
	return out
}

// signInMissing says what to do before a provider gets the token of its sign-in; "": it does.
func (s *Server) signInMissing(p *provider.Provider) (fix string) {
	name := p.SignIn()
	if name == "" || s.opts.SignIns == nil {
		return ""
	}
	all, err := s.opts.SignIns.List(context.Background())
	if err != nil {
		return ""
	}
	at := slices.IndexFunc(all, func(one signin.SignIn) bool { return one.Name == name })
	switch {
	case at < 0:
		return "Nobody has signed in as " + name + " yet. Sign in, and approve the provider then."
	case all[at].Ended != "":
		return "The sign-in " + name + " has ended: " + all[at].Ended + ". Sign in again; what was approved stays so."
	}
	return ""
}

func viewProviderTool(t *provider.Tool, whole bool) api.ProviderTool {
	one := api.ProviderTool{
		Tool: t.Described.Tool, Upstream: t.Upstream, Title: t.Title, Description: t.Description, State: string(t.State), Callable: t.Callable(),
		Effect: t.Agents(), Proposal: t.Proposal(), Canary: t.Canary, Hash: t.Hash, Approved: t.Approved, Keys: t.Descriptor.Manifest.Keys(),
		Argv: t.Runs, Plan: t.Plan,
	}
	one.Was, one.Next = string(t.Was), []string{}
	for _, to := range t.State.Next() {
		one.Next = append(one.Next, string(to))
	}
	for _, f := range t.Flags {
		one.Flags = append(one.Flags, string(f))
	}
	if whole {
		one.Input = t.Input
	}
	return one
}

// hosting is the capability that every device which hosts providers has.
const hosting capabilities.CapabilityID = "tyrum.provider.drop"

// hostReady reports whether a host can carry a capability out now, and why not: that of the
// provider, or any of the satellites that serve it.
func hostReady(p *provider.Provider, of capabilities.CapabilityID, roster []route.Node) (ready bool, why capabilities.Reason, fix string) {
	why = capabilities.ReasonNodeNotPaired
	for i := range roster {
		if n := &roster[i]; n.ID == p.Host || p.Interchangeable && n.Serves == p.Name {
			v := route.Check(n, of, nil)
			if v.Eligible() {
				return true, "", ""
			}
			if n.ID == p.Host || why == capabilities.ReasonNodeNotPaired {
				why, fix = v.Reason, command.Hint(v.Fix, v.Action)
				switch {
				case why != capabilities.ReasonNotAdvertised || fix != "":
				case of == hosting:
					fix = command.Hint("The device hosts no providers now. Its owner has to let it.",
						capabilities.Action{Key: capabilities.ActionHostProviders})
				default:
					fix = "Its host does not offer it yet. After an approval it does within a moment."
				}
			}
		}
	}
	return false, why, fix
}
