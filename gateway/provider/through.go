package provider

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/macro"
)

// Bounds of what a person is told of a tool's provider.
const (
	maxNamed = 4  // entries of one list
	maxSteps = 12 // steps of a macro
)

// Through says in short lines what carries a tool out and what that may reach, for a person who
// is asked about a call of it: by the provider's record, which an approval is of. Of a macro it
// lists the steps. Secrets are named and never read; nothing is escaped yet. nil: the provider
// has no such tool.
func (b *Book) Through(name string, id capabilities.ToolID) []string {
	p, err := b.Get(name)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(p.Tools, func(t Tool) bool { return t.Described.Tool == id })
	if i < 0 {
		return nil
	}
	return p.through(&p.Tools[i])
}

func (p *Provider) through(t *Tool) []string {
	all := []string{fmt.Sprintf("provider %s (%s)", p.Name, p.means(t))}
	if t.Request != nil {
		all = append(all, "sends "+strings.Join(t.Request.Line(), " to "))
	}
	if t.Annotations.Destructive {
		all = append(all, "it may destroy something")
	}
	if p.Kind.Composed() {
		return append(all, p.steps()...)
	}
	if len(p.Read) > 0 {
		all = append(all, "reads "+named(p.Read))
	}
	if len(p.Write) > 0 {
		all = append(all, "reads and writes "+named(p.Write))
	}
	starts := p.Kind == tools.KindCommand || len(p.Command) > 0 // behind walls of the record
	if starts && len(p.Read)+len(p.Write) == 0 {
		all = append(all, "no folders")
	}
	switch {
	case len(p.Net) > 0:
		all = append(all, "connects to "+named(p.Net))
	case starts:
		all = append(all, "no network")
	}
	var secrets []string
	for _, c := range p.Credentials() {
		if !slices.Contains(secrets, c.Secret) {
			secrets = append(secrets, c.Secret)
		}
	}
	switch len(secrets) {
	case 0:
	case 1:
		all = append(all, "gets the secret "+secrets[0])
	default:
		all = append(all, "gets the secrets "+named(secrets))
	}
	return all
}

// means is by what a provider carries a tool out: its kind, with the program or the place.
func (p *Provider) means(t *Tool) string {
	switch p.Kind {
	case tools.KindCommand:
		if p.Module() != "" {
			return "WebAssembly module " + p.Module()
		}
		if len(t.Runs) > 0 {
			return "command " + t.Runs[0]
		}
		return "command"
	case tools.KindOpenAPI:
		return "HTTP API"
	case tools.KindMCP:
		if len(p.Command) > 0 {
			return "MCP server, command " + p.Command[0]
		}
		if u, err := url.Parse(p.URL); err == nil { // its path and query may hold a key
			return "MCP server at " + u.Scheme + "://" + u.Host
		}
		return "MCP server"
	case tools.KindSatellite:
		return "satellite, on a machine of its own"
	}
	return string(p.Kind)
}

// steps are those of a macro, those that undo others among them, each by its ID and its tool.
func (p *Provider) steps() []string {
	if p.Kind == tools.KindSubAgent {
		return p.agentUses()
	}
	m, err := macro.Read(p.Name, p.Provider.Manifest)
	if err != nil { // it was read before
		return nil
	}
	plan := m.Plan(json.RawMessage(`{}`))
	all := make([]string, 0, maxSteps+1)
	for i, one := range plan {
		if i == maxSteps {
			return append(all, fmt.Sprintf("and %d more", len(plan)-i))
		}
		all = append(all, fmt.Sprintf("step %s: %s", one.Name, one.Tool))
	}
	return all
}

// named lists the first of them and counts the rest.
func named(list []string) string {
	if more := len(list) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}
