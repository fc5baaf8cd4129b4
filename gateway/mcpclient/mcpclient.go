package mcpclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Server is our entry's name in every client's file. Without a dash or an underscore,
// because some clients split tool names there.
const Server = "handrail"

// Format is how a client writes its settings.
type Format string

// The formats.
const (
	JSON  Format = "json"
	JSONC Format = "jsonc" // with comments
	TOML  Format = "toml"
)

// Field is a field of an entry. Its value is a string, a []string or a map[string]string.
type Field struct {
	Name  string
	Value any
}

// Client is what is known of one MCP client (docs/clients.md has the sources).
type Client struct {
	Name, Title string
	Format      Format
	Path        []string // of our entry in the file
	File        string   // where the file usually is, for people
	StdioType   string   // the "type" of an entry that starts a program; "" for none
	Reload      string   // what makes a running client read the file
	// Structured says that the client itself uses structured content. The others hand it to
	// their model, which reads plain text for fewer tokens.
	Structured bool

	// remote returns the fields of an entry by URL; nil if the client takes none.
	remote func(url string, headers map[string]string) []Field
}

func byType(kind string) func(string, map[string]string) []Field {
	return func(url string, headers map[string]string) []Field {
		fields := []Field{{"url", url}, {"headers", headers}}
		if kind != "" {
			fields = append([]Field{{"type", kind}}, fields...)
		}
		return fields
	}
}

// All are the clients that we know.
func All() []Client {
	return []Client{
		{
			Name: "claude", Title: "Claude Desktop", Format: JSON, Path: []string{"mcpServers", Server},
			File:   "Claude/claude_desktop_config.json in the system's settings folder",
			Reload: "Quit Claude Desktop and start it again.",
		}, {
			Name: "claude-code", Title: "Claude Code", Format: JSON, Path: []string{"mcpServers", Server},
			File: "~/.claude.json", StdioType: "stdio", remote: byType("http"),
			Reload: "Start a new session of Claude Code; /mcp shows the server.",
		}, {
			Name: "vscode", Title: "VS Code", Format: JSONC, Path: []string{"servers", Server},
			File: "Code/User/mcp.json in the system's settings folder", StdioType: "stdio", remote: byType("http"),
			Reload: "VS Code reads the file by itself; start the server there with 'MCP: List Servers' if it does not.",
		}, {
			Name: "cursor", Title: "Cursor", Format: JSONC, Path: []string{"mcpServers", Server},
			File: "~/.cursor/mcp.json", remote: byType(""),
			Reload: "Cursor reads the file by itself; its settings for MCP show the server.",
		}, {
			Name: "codex", Title: "Codex", Format: TOML, Path: []string{"mcp_servers", Server},
			File: "~/.codex/config.toml",
			remote: func(url string, headers map[string]string) []Field {
				return []Field{{"url", url}, {"http_headers", headers}}
			},
			Reload: "Start a new session of Codex; /mcp shows the server.",
		}, {
			Name: "gemini", Title: "Gemini CLI", Format: JSONC, Path: []string{"mcpServers", Server},
			File: "~/.gemini/settings.json",
			remote: func(url string, headers map[string]string) []Field {
				return []Field{{"httpUrl", url}, {"headers", headers}}
			},
			Reload: "Start Gemini CLI anew in a folder that it trusts; /mcp shows the server.",
		},
	}
}

// Named returns the client of that name.
func Named(name string) (Client, bool) {
	all := All()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Client{}, false
	}
	return all[i], true
}

// Remote reports whether the client calls an address by itself.
func (c Client) Remote() bool { return c.remote != nil }

// HTTP returns the fields of an entry that calls the MCP address with a token; nil where the
// client only starts programs. base is the gateway's, such as https://handrail.example.
func (c Client) HTTP(base, token string) []Field {
	if c.remote == nil {
		return nil
	}
	url := strings.TrimSuffix(base, "/") + "/mcp"
	if !c.Structured {
		url += "?structured=0"
	}
	return c.remote(url, map[string]string{"Authorization": "Bearer " + token})
}

// Stdio returns the fields of an entry that starts a program, with variables of its
// environment; nil: none.
func (c Client) Stdio(command string, args []string, env map[string]string) []Field {
	fields := []Field{{"command", command}, {"args", args}}
	if c.StdioType != "" {
		fields = append([]Field{{"type", c.StdioType}}, fields...)
	}
	if len(env) > 0 {
		fields = append(fields, Field{"env", env})
	}
	return fields
}

// Entry is the text of a settings file that holds an entry with these fields and nothing
// else, to be pasted.
func (c Client) Entry(fields []Field) string {
	if c.Format == TOML {
		return c.toml(fields)
	}
	var b strings.Builder
	for depth, name := range c.Path {
		fmt.Fprintf(&b, "{\n%s%s: ", strings.Repeat("  ", depth+1), quoted(name))
	}
	inner := strings.Repeat("  ", len(c.Path))
	b.WriteString("{\n")
	for i, f := range fields {
		fmt.Fprintf(&b, "%s  %s: %s", inner, quoted(f.Name), written(f.Value, inner+"  "))
		if i < len(fields)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString(inner + "}\n")
	for depth := len(c.Path) - 1; depth >= 0; depth-- {
		b.WriteString(strings.Repeat("  ", depth) + "}\n")
	}
	return b.String()
}

func (c Client) toml(fields []Field) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s]\n", strings.Join(c.Path, "."))
	for _, f := range fields {
		switch v := f.Value.(type) {
		case []string:
			var all []string
			for _, s := range v {
				all = append(all, quoted(s))
			}
			fmt.Fprintf(&b, "%s = [%s]\n", f.Name, strings.Join(all, ", "))
		case map[string]string:
			var all []string
			for _, k := range slices.Sorted(maps.Keys(v)) {
				all = append(all, quoted(k)+" = "+quoted(v[k]))
			}
			fmt.Fprintf(&b, "%s = { %s }\n", f.Name, strings.Join(all, ", "))
		default:
			fmt.Fprintf(&b, "%s = %s\n", f.Name, quoted(fmt.Sprint(v)))
		}
	}
	return b.String()
}

// quoted is a string as JSON has it, which is also a basic string of TOML.
func quoted(s string) string { return written(s, "") }

// written is a value as JSON, for people: what HTML would mind stays as it is.
func written(v any, indent string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(indent, "  ")
	if e.Encode(v) != nil { // strings, and lists and maps of them, always encode
		return `""`
	}
	return strings.TrimSpace(b.String())
}
