package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/handrail-dev/handrail/cmd/handrail/clientfile"
)

// serverName is our entry's name in every client's file. Without a dash or an
// underscore, because some clients split tool names there.
const serverName = "handrail"

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

// below gives dir/name…, with dir from the variable if it is set.
func (p place) below(variable string, fallback ...string) string {
	if dir := p.getenv(variable); variable != "" && dir != "" {
		return dir
	}
	return filepath.Join(append([]string{p.home()}, fallback...)...)
}

// clientKind is what is known of one MCP client (docs/clients.md has the sources).
type clientKind struct {
	name, title string
	program     string // what it is started by; "" for a desktop program
	format      clientfile.Format
	path        []string // of our entry in the file
	file        func(place) string
	stdioType   string // the "type" of an entry that starts a program; "" for none
	// remote gives the fields of an entry by URL; nil if the client takes none.
	remote func(url string, headers map[string]string) []clientfile.Field
	reload string // what makes a running client read the file
	// structured says that the client itself uses structured content. The others hand it to
	// their model, which reads plain text for fewer tokens.
	structured bool
}

// ours are the fields that one of the transports uses. Those that a new entry does
// not set are taken out; whatever else a person added stays.
var ours = []string{"type", "command", "args", "url", "httpUrl", "headers", "http_headers", "bearer_token_env_var"}

func byType(kind string) func(string, map[string]string) []clientfile.Field {
	return func(url string, headers map[string]string) []clientfile.Field {
		fields := []clientfile.Field{{Name: "url", Value: url}, {Name: "headers", Value: headers}}
		if kind != "" {
			fields = append([]clientfile.Field{{Name: "type", Value: kind}}, fields...)
		}
		return fields
	}
}

var clientKinds = []clientKind{
	{
		name: "claude", title: "Claude Desktop", format: clientfile.JSON, path: []string{"mcpServers", serverName},
		file:   func(p place) string { return filepath.Join(p.settings(), "Claude", "claude_desktop_config.json") },
		reload: "Quit Claude Desktop and start it again.",
	}, {
		name: "claude-code", title: "Claude Code", program: "claude", format: clientfile.JSON, path: []string{"mcpServers", serverName},
		file:      func(p place) string { return filepath.Join(p.below("CLAUDE_CONFIG_DIR"), ".claude.json") },
		stdioType: "stdio", remote: byType("http"),
		reload: "Start a new session of Claude Code; /mcp shows the server.",
	}, {
		name: "vscode", title: "VS Code", program: "code", format: clientfile.JSONC, path: []string{"servers", serverName},
		file:      func(p place) string { return filepath.Join(p.settings(), "Code", "User", "mcp.json") },
		stdioType: "stdio", remote: byType("http"),
		reload: "VS Code reads the file by itself; start the server there with 'MCP: List Servers' if it does not.",
	}, {
		name: "cursor", title: "Cursor", program: "cursor", format: clientfile.JSONC, path: []string{"mcpServers", serverName},
		file:   func(p place) string { return filepath.Join(p.below("", ".cursor"), "mcp.json") },
		remote: byType(""),
		reload: "Cursor reads the file by itself; its settings for MCP show the server.",
	}, {
		name: "codex", title: "Codex", program: "codex", format: clientfile.TOML, path: []string{"mcp_servers", serverName},
		file: func(p place) string { return filepath.Join(p.below("CODEX_HOME", ".codex"), "config.toml") },
		remote: func(url string, headers map[string]string) []clientfile.Field {
			return []clientfile.Field{{Name: "url", Value: url}, {Name: "http_headers", Value: headers}}
		},
		reload: "Start a new session of Codex; /mcp shows the server.",
	}, {
		name: "gemini", title: "Gemini CLI", program: "gemini", format: clientfile.JSONC, path: []string{"mcpServers", serverName},
		file: func(p place) string { return filepath.Join(p.below("GEMINI_CLI_HOME"), ".gemini", "settings.json") },
		remote: func(url string, headers map[string]string) []clientfile.Field {
			return []clientfile.Field{{Name: "httpUrl", Value: url}, {Name: "headers", Value: headers}}
		},
		reload: "Start Gemini CLI anew in a folder that it trusts; /mcp shows the server.",
	},
}

func clientNames() []string {
	var names []string
	for _, k := range clientKinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) (clientKind, bool) {
	i := slices.IndexFunc(clientKinds, func(k clientKind) bool { return k.name == name })
	if i < 0 {
		return clientKind{}, false
	}
	return clientKinds[i], true
}

// stdio gives the fields of an entry that starts a program.
func (k clientKind) stdio(command string, args []string) []clientfile.Field {
	fields := []clientfile.Field{{Name: "command", Value: command}, {Name: "args", Value: args}}
	if k.stdioType != "" {
		fields = append([]clientfile.Field{{Name: "type", Value: k.stdioType}}, fields...)
	}
	return fields
}

// dropped are the fields of ours that an entry with these must not have.
func dropped(fields []clientfile.Field) []string {
	return slices.DeleteFunc(slices.Clone(ours), func(name string) bool {
		return slices.ContainsFunc(fields, func(f clientfile.Field) bool { return f.Name == name })
	})
}

// found reports whether there is a trace of the client on this machine: its
// program, its file, or the folder that it keeps its file in.
func (k clientKind) found(file string) bool {
	if k.program != "" {
		if _, err := exec.LookPath(k.program); err == nil || errors.Is(err, exec.ErrDot) {
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
