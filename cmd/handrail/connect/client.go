package connect

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/handrail-dev/handrail/cmd/handrail/connect/clientfile"
	"github.com/handrail-dev/handrail/gateway/mcpclient"
)

// place is what the path of a client's file depends on; a value, so that every
// system can be tested on any.
type place struct {
	goos   string
	getenv func(string) string
}

func here() place { return place{runtime.GOOS, os.Getenv} }

func (p place) home() string {
	if p.goos == "windows" {
		return p.getenv("USERPROFILE")
	}
	return p.getenv("HOME")
}

// settings is where desktop programs keep their settings.
func (p place) settings() string {
	switch p.goos {
	case "windows":
		return p.getenv("APPDATA")
	case "darwin":
		return filepath.Join(p.home(), "Library", "Application Support")
	}
	if dir := p.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(p.home(), ".config")
}

// below returns dir/name…, with dir from the variable if it is set.
func (p place) below(variable string, fallback ...string) string {
	if dir := p.getenv(variable); variable != "" && dir != "" {
		return dir
	}
	return filepath.Join(append([]string{p.home()}, fallback...)...)
}

// Client is an MCP client as it is found on a machine.
type Client struct {
	mcpclient.Client
	program string // what it is started by; "" for a desktop program
	file    func(place) string
}

// ours are the fields that one of the transports uses. Those that a new entry does
// not set are taken out; whatever else a person added stays.
var ours = []string{"type", "command", "args", "url", "httpUrl", "headers", "http_headers", "bearer_token_env_var"}

// onMachine is where each client's program and file are.
var onMachine = map[string]struct {
	program string
	file    func(place) string
}{
	"claude":      {"", func(p place) string { return filepath.Join(p.settings(), "Claude", "claude_desktop_config.json") }},
	"claude-code": {"claude", func(p place) string { return filepath.Join(p.below("CLAUDE_CONFIG_DIR"), ".claude.json") }},
	"vscode":      {"code", func(p place) string { return filepath.Join(p.settings(), "Code", "User", "mcp.json") }},
	"cursor":      {"cursor", func(p place) string { return filepath.Join(p.below("", ".cursor"), "mcp.json") }},
	"codex":       {"codex", func(p place) string { return filepath.Join(p.below("CODEX_HOME", ".codex"), "config.toml") }},
	"gemini":      {"gemini", func(p place) string { return filepath.Join(p.below("GEMINI_CLI_HOME"), ".gemini", "settings.json") }},
}

var clients = func() (all []Client) {
	for _, c := range mcpclient.All() {
		at := onMachine[c.Name]
		all = append(all, Client{c, at.program, at.file})
	}
	return all
}()

// Clients are those that can be connected.
func Clients() []Client { return slices.Clone(clients) }

// Form is how its file is written.
func (c Client) Form() clientfile.Format {
	return map[mcpclient.Format]clientfile.Format{
		mcpclient.JSON: clientfile.JSON, mcpclient.JSONC: clientfile.JSONC, mcpclient.TOML: clientfile.TOML,
	}[c.Format]
}

// http returns the fields of an entry that calls an address.
func (c Client) http(base, token string) []clientfile.Field { return asFields(c.HTTP(base, token)) }

// stdio returns the fields of an entry that starts a program.
func (c Client) stdio(command string, args []string) []clientfile.Field {
	return asFields(c.Stdio(command, args, nil))
}

func asFields(fields []mcpclient.Field) []clientfile.Field {
	var all []clientfile.Field
	for _, f := range fields {
		all = append(all, clientfile.Field(f))
	}
	return all
}

// Names are the names of Clients, in their order.
func Names() []string {
	var names []string
	for _, k := range clients {
		names = append(names, k.Name)
	}
	return names
}

// Named returns the client of that name.
func Named(name string) (Client, bool) {
	i := slices.IndexFunc(clients, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return clients[i], true
}

// dropped are the fields of ours that an entry with these must not have.
func dropped(fields []clientfile.Field) []string {
	return slices.DeleteFunc(slices.Clone(ours), func(name string) bool {
		return slices.ContainsFunc(fields, func(f clientfile.Field) bool { return f.Name == name })
	})
}

// found reports whether there is a trace of the client on this machine: its
// program, its file, or the folder that it keeps its file in.
func (c Client) found(file string) bool {
	if c.program != "" {
		if _, err := exec.LookPath(c.program); err == nil || errors.Is(err, exec.ErrDot) {
			return true
		}
	}
	if _, err := os.Stat(file); err == nil {
		return true
	}
	dir := filepath.Dir(file)
	if dir == here().home() { // a home is nobody's folder
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
