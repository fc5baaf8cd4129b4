package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/route"
)

// Difference is what a provider says of a tool now against what was approved.
type Difference struct {
	Provider string
	Tool     Tool
	// Lines begin with "  ", "- " (approved and gone) or "+ " (new); a hidden character is
	// written out. All are new if nothing was approved; none if nothing changed.
	Lines []string
	// Unseen says that the host reports a change whose words the gateway has not asked for.
	Unseen bool
}

// Diff compares what a provider said last of a tool with what was approved: CodeUnknownTool.
func (b *Book) Diff(ctx context.Context, id capabilities.ToolID) (Difference, error) {
	p, t, err := b.Tool(id)
	if err != nil {
		return Difference{}, err
	}
	d := Difference{Provider: p.Name, Tool: t, Lines: []string{}, Unseen: t.Approved == t.Hash && (t.State == Review || b.reported(&p, &t))}
	if t.Approved == t.Hash {
		return d, nil
	}
	now, ok := find(&p.Manifest, t.Hash)
	if !ok {
		return d, capabilities.Errorf(capabilities.CodeInternal, "the manifest of %s has not its words", id)
	}
	before := ""
	if t.Approved != "" {
		was, err := b.Words(ctx, p.Name, t.Approved)
		if err != nil {
			return d, err
		}
		before = words(&was)
	}
	d.Lines = lines(before, words(&now))
	return d, nil
}

// reported tells whether the host of a provider says now that a tool changed.
func (b *Book) reported(p *Provider, t *Tool) bool {
	if b.hosts == nil || !t.Callable() {
		return false
	}
	return slices.ContainsFunc(b.hosts.Snapshot(), func(n route.Node) bool {
		return n.ID == p.Host && n.Connected && n.Readiness[t.Capability].Reason == capabilities.ReasonManifestChanged
	})
}

// Words returns what a provider once said of a tool, by the hash of it: CodeNotFound.
func (b *Book) Words(ctx context.Context, provider, hash string) (tools.RemoteTool, error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT body FROM manifest ORDER BY at DESC`)
	if err != nil {
		return tools.RemoteTool{}, err
	}
	defer rows.Close()
	for rows.Next() {
		var body string
		var m tools.ToolManifest
		if err := rows.Scan(&body); err != nil {
			return tools.RemoteTool{}, err
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			return tools.RemoteTool{}, err
		}
		if m.Provider != provider {
			continue
		}
		if t, ok := find(&m, hash); ok {
			return t, nil
		}
	}
	if err := rows.Err(); err != nil {
		return tools.RemoteTool{}, err
	}
	return tools.RemoteTool{}, capabilities.Errorf(capabilities.CodeNotFound, "no manifest of %s has a tool %.80q", provider, hash)
}

func find(m *tools.ToolManifest, hash string) (tools.RemoteTool, bool) {
	for i := range m.Tools {
		if m.Tools[i].Hash() == hash {
			return m.Tools[i], true
		}
	}
	return tools.RemoteTool{}, false
}

// words is a tool in lines: each part of it under its name, in an order that never changes.
func words(t *tools.RemoteTool) string {
	var b strings.Builder
	text := func(name, s string) {
		if s == "" {
			return
		}
		b.WriteString(name + ":\n")
		for line := range strings.SplitSeq(s, "\n") {
			b.WriteString("  " + capabilities.Escape(line) + "\n")
		}
	}
	schema := func(name string, raw json.RawMessage) {
		var any any
		if json.Unmarshal(raw, &any) != nil {
			return
		}
		var out bytes.Buffer // keys sorted: an order that a server changes is no change
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if enc.Encode(any) == nil {
			text(name, strings.TrimSpace(out.String()))
		}
	}
	hint := func(name string, v *bool) {
		if v != nil {
			b.WriteString(name + ": " + strconv.FormatBool(*v) + "\n")
		}
	}
	text("name", t.Name)
	text("title", t.Title)
	text("description", t.Description)
	hint("read_only", t.ReadOnly)
	hint("destructive", t.Destructive)
	hint("idempotent", t.Idempotent)
	hint("open_world", t.OpenWorld)
	text("tags", strings.Join(t.Tags, "\n"))
	text("capability_keys", strings.Join(t.Keys, "\n"))
	if t.TimeoutMS > 0 {
		b.WriteString("timeout_ms: " + strconv.Itoa(t.TimeoutMS) + "\n")
	}
	text("uses", strings.Join(ids(t.Uses), "\n"))
	text("steps", strings.Join(t.Plan, "\n"))
	text("runs", strings.Join(t.Runs, "\n"))
	if t.Request != nil {
		if raw, err := json.Marshal(t.Request); err == nil {
			schema("request", raw)
		}
	}
	text("unusable", t.Unusable)
	schema("input", t.Input)
	schema("output", t.Output)
	return b.String()
}

func ids(list []capabilities.ToolID) []string {
	out := make([]string, 0, len(list))
	for _, id := range list {
		out = append(out, string(id))
	}
	return out
}

// lines are the hunks of a difference, each line behind its sign.
func lines(from, to string) []string {
	out := []string{}
	text := diff.Diff("approved", []byte(from), "now", []byte(to))
	_, hunks, _ := strings.Cut(string(text), "\n@@") // after the lines with the names
	first := true
	for line := range strings.Lines("@@" + hunks) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "@@"):
			if !first {
				out = append(out, "")
			}
			first = false
		case line != "":
			out = append(out, line[:1]+" "+line[1:])
		}
	}
	return out
}
