package tools

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Kind is how a provider carries its tools out. The zero value is invalid.
type Kind string

// The kinds.
const (
	KindCommand   Kind = "command"   // programs, by argument templates
	KindOpenAPI   Kind = "openapi"   // an HTTP API, by its OpenAPI document
	KindMCP       Kind = "mcp"       // an MCP server
	KindMacro     Kind = "macro"     // a fixed chain of tools
	KindSubAgent  Kind = "sub-agent" // a worker with a task (S3-16)
	KindSatellite Kind = "satellite" // a process on the bus with a heartbeat (S3-08)
)

// Kinds returns every kind.
func Kinds() []Kind {
	return []Kind{KindCommand, KindOpenAPI, KindMCP, KindMacro, KindSubAgent, KindSatellite}
}

// Hosted reports whether a node carries out what providers of this kind offer.
func (k Kind) Hosted() bool { return k == KindCommand || k == KindOpenAPI || k == KindMCP }

// Composed reports whether the gateway makes the calls of what providers of this kind offer.
func (k Kind) Composed() bool { return k == KindMacro || k == KindSubAgent }

// Layer is the layer of the kind's tools.
func (k Kind) Layer() catalog.Layer {
	switch k {
	case KindMacro:
		return catalog.LayerMacro
	case KindSubAgent:
		return catalog.LayerSubAgent
	}
	return catalog.LayerRemote
}

// Bounds of a record.
const (
	MaxCommand  = 64       // words of a command
	MaxWord     = 4 << 10  // bytes of one
	MaxReach    = 32       // entries of each list of what it may reach
	MaxDocument = 8 << 20  // bytes of an OpenAPI document
	MaxManifest = 1 << 20  // bytes of a manifest that an admin wrote
	MaxRecord   = 64 << 10 // bytes of a record without its document
)

// Provider is the record of a provider: what an admin said when they added it. It holds no
// secret, only the names of references.
type Provider struct {
	Name string `json:"name"` // one segment of an ID; the family of its tools
	Kind Kind   `json:"kind"`
	// Command starts a stdio MCP server: a program and its arguments, without a shell. Of a command
	// it is the WebAssembly module that its tools run, if they run one: its absolute path alone.
	Command []string `json:"command,omitempty"`
	// URL is where an MCP server is, or the OpenAPI document of an HTTP API.
	URL string `json:"url,omitempty"`
	// Server is where an HTTP API is, in place of what its document says.
	Server string `json:"server,omitempty"`
	// Only are the tags and operations of an OpenAPI document, or the tools of an MCP server,
	// that are wanted; empty: all.
	Only []string `json:"only,omitempty"`
	// Manifest is the manifest of a command, a macro or a sub-agent, or an OpenAPI document, as JSON.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// It may reach these on its host, and nothing else: folders, hosts of the network.
	Read  []string `json:"read,omitempty"`  // absolute folders, read only
	Write []string `json:"write,omitempty"` // absolute folders
	Net   []string `json:"net,omitempty"`   // "example.com", "*.example.com", "127.0.0.1:8080"
	// Env are the credentials that it gets, each by the ID of a secret's reference.
	Env []Credential `json:"env,omitempty"`
	// Headers are those that requests to an HTTP API carry as credentials, in the same way.
	Headers []Credential `json:"headers,omitempty"`
	// Interchangeable says that any of several hosts serves a call as well as another.
	Interchangeable bool `json:"interchangeable,omitempty"`
}

// Credential is one secret of a provider.
type Credential struct {
	Name   string `json:"name"`   // of the variable, the OpenAPI security scheme or the header
	Secret string `json:"secret"` // the reference's ID
}

var (
	nameFormat   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	envFormat    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	schemeFormat = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) // of OpenAPI
	// serverHeader is that of a credential for a server at a URL: the header that carries it.
	serverHeader = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	hostFormat   = regexp.MustCompile(`^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$|^\[[0-9a-f:]+\](:[0-9]{1,5})?$`)
)

// ownVariables decide how a program runs, or where it may connect; no secret is put there.
var ownVariables = []string{
	"PATH", "HOME", "TMPDIR", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "HOST", "CONTENT-LENGTH", "TRANSFER-ENCODING", "CONNECTION",
}

// reserved are families that are compiled in; a provider takes none of their names.
var reserved = []string{
	"audio", "browser", "camera", "catalog", "clipboard", "desktop", "fs", "live", "location", "macro", "node", "policy", "provider",
	"run", "secret", "skill", "sub-agent", "task", "tool", "web",
}

// maxMacroName keeps the wire name of a macro within maxWire.
const maxMacroName = maxWire - len("tool_macro_")

// maxAgentName does so for a sub-agent.
const maxAgentName = maxWire - len("tool_sub_agent_")

// Reserved reports whether a name is kept for what is compiled in. Plumbing domains may have
// tools, too (S3-29).
func Reserved(name string) bool { return slices.Contains(reserved, name) }

// Validate refuses a record that breaks a rule: CodeInvalidRequest, which names the field.
func (p *Provider) Validate() error {
	bad := func(field, why string) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: %s", field, why)
	}
	switch {
	case !nameFormat.MatchString(p.Name):
		return bad("name", "a letter, then at most 31 of a-z, 0-9 and -")
	case p.Kind == KindMacro && len(p.Name) > maxMacroName:
		return bad("name", "a macro's has at most 29 characters")
	case p.Kind == KindSubAgent && len(p.Name) > maxAgentName:
		return bad("name", "a sub-agent's has at most 25 characters")
	case Reserved(p.Name) && !p.Kind.Composed(): // those are of families of their own
		return bad("name", p.Name+" is the name of a built-in family")
	case !slices.Contains(Kinds(), p.Kind):
		return bad("kind", "command, openapi, mcp, macro, sub-agent or satellite")
	case len(p.Command) > MaxCommand ||
		slices.ContainsFunc(p.Command, func(s string) bool { return len(s) > MaxWord || strings.ContainsRune(s, 0) }):
		return bad("command", "at most 64 words of 4096 bytes each")
	case p.Kind == KindMCP && (len(p.Command) == 0) == (p.URL == ""):
		return bad("command", "an MCP server has either a command or a URL")
	case p.Kind != KindMCP && p.Kind != KindCommand && len(p.Command) > 0:
		return bad("command", "only an MCP server is started by one, and only a command runs a module")
	case p.Kind == KindCommand && len(p.Command) > 0 && !moduleFile(p.Command):
		return bad(
			"command", "a command's manifest names its programs; here stands a WebAssembly module alone, by its absolute path with .wasm at the end")
	case p.Module() != "" && len(p.Read)+len(p.Write)+len(p.Net)+len(p.Env) > 0:
		return bad("command", "a WebAssembly module has no folders, no network and no credentials")
	case (p.Kind == KindCommand || p.Kind.Composed()) && len(p.Manifest) == 0:
		return bad("manifest", "is required")
	case p.Kind == KindOpenAPI && (len(p.Manifest) == 0) == (p.URL == ""):
		return bad("manifest", "an HTTP API has either a document or the URL of one")
	case p.Kind != KindOpenAPI && (p.Server != "" || len(p.Headers) > 0):
		return bad("server", "only an HTTP API has a server and headers")
	case p.Kind == KindOpenAPI && len(p.Read)+len(p.Write) > 0:
		return bad("read", "an HTTP API reaches no files")
	case len(p.Manifest) > MaxDocument:
		return bad("manifest", "is too large")
	}
	for field, at := range map[string]string{"url": p.URL, "server": p.Server} {
		if at != "" && (len(at) > MaxWord || !web(at) || field == "server" && strings.Contains(at, "?")) {
			return bad(field, "an http or https address without a user or fragment")
		}
	}
	for field, list := range map[string][]string{"read": p.Read, "write": p.Write} {
		if len(list) > MaxReach {
			return bad(field, "at most 32 folders")
		}
		for _, dir := range list {
			if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || len(dir) > MaxWord {
				return bad(field, "an absolute, clean path")
			}
		}
	}
	if len(p.Net) > MaxReach || slices.ContainsFunc(p.Net, func(h string) bool { return len(h) > 255 || !hostFormat.MatchString(h) }) {
		return bad("net", `at most 32 hosts, such as "example.com", "*.example.com" or "127.0.0.1:8080"`)
	}
	if len(p.Env)+len(p.Headers) > 0 && !p.Kind.Hosted() {
		return bad("env", "only what a node hosts gets credentials")
	}
	if len(p.Env) > MaxReach {
		return bad("env", "at most 32 variables")
	}
	if len(p.Headers) > MaxReach {
		return bad("headers", "at most 32")
	}
	for i, c := range p.Headers {
		if !HeaderAllowed(c.Name) || c.Secret == "" || len(c.Secret) > 256 {
			return bad("headers", "NAME=SECRET, where NAME is a header that may be set and SECRET is a stored secret")
		}
		if slices.ContainsFunc(p.Headers[:i], func(o Credential) bool { return strings.EqualFold(o.Name, c.Name) }) {
			return bad("headers", c.Name+" twice")
		}
	}
	format := envFormat
	switch {
	case p.Kind == KindOpenAPI:
		format = schemeFormat
	case p.URL != "":
		format = serverHeader
	}
	for i, c := range p.Env {
		if !format.MatchString(c.Name) || p.Kind != KindOpenAPI && slices.Contains(ownVariables, strings.ToUpper(c.Name)) || c.Secret == "" ||
			len(c.Secret) > 256 {
			return bad("env", "NAME=SECRET, where SECRET is a stored secret")
		}
		if slices.ContainsFunc(slices.Concat(p.Env[:i], p.Headers), func(o Credential) bool { return o.Name == c.Name }) {
			return bad("env", c.Name+" twice")
		}
	}
	return nil
}

// web reports whether a text is a web address that names a place and nobody.
func web(at string) bool {
	_, ok := address.Web(at)
	return ok
}

// Module is the file of the WebAssembly module that a command's tools run; "": they are programs.
func (p *Provider) Module() string {
	if p.Kind != KindCommand || len(p.Command) == 0 {
		return ""
	}
	return p.Command[0]
}

func moduleFile(command []string) bool {
	return len(command) == 1 && filepath.IsAbs(command[0]) && filepath.Clean(command[0]) == command[0] &&
		strings.HasSuffix(command[0], ".wasm")
}

// Credentials are all that it is given, each by a name of its own.
func (p *Provider) Credentials() []Credential { return slices.Concat(p.Env, p.Headers) }

// Keys are the capability keys that every tool of the provider declares, for what it may
// reach.
func (p *Provider) Keys() []string {
	var keys []string
	if p.Module() == "" && (p.Kind == KindCommand || len(p.Command) > 0) {
		keys = append(keys, "execution.proc.spawn")
	}
	if len(p.Read)+len(p.Write) > 0 {
		keys = append(keys, "data.read.workspace")
	}
	if len(p.Write) > 0 {
		keys = append(keys, "data.write.workspace")
	}
	if len(p.Net) > 0 || p.URL != "" || p.Kind == KindOpenAPI {
		keys = append(keys, "network.egress.https")
	}
	return keys
}
