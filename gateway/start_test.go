package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/store"
)

// hosted puts providers with that many active tools each into the folder of a gateway that has not
// started yet, as Add and Approve leave them. Agents may call every other tool, and are asked about
// the rest.
func hosted(t testing.TB, dir string, providers, each int) {
	t.Helper()
	ctx := context.Background()
	must(t, os.MkdirAll(filepath.Join(dir, "policy"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "policy", "default.cedar"), []byte(policy.DefaultSource()), 0o600))
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "store.db"), Migrations: provider.Migrations(), ReserveBytes: -1})
	must(t, err)
	defer func() { must(t, db.Close()) }()
	must(t, db.Write(ctx, func(tx *store.Tx) error {
		for n := range providers {
			p := tools.Provider{Name: fmt.Sprintf("p%d", n), Kind: tools.KindMCP, URL: "https://example.com/mcp"}
			m := tools.ToolManifest{Provider: p.Name}
			var allowed, asked []string
			for i := range each {
				m.Tools = append(m.Tools, tools.RemoteTool{
					Name: fmt.Sprintf("tool-%d", i), Description: "Does one thing, of which there are many, to the file that it is given.",
					Input: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},"count":{"type":"integer","maximum":%d}},"required":["path"]}`, i)),
				})
				list := &allowed
				if i%2 > 0 {
					list = &asked
				}
				*list = append(*list, fmt.Sprintf("  Action::\"tool.p%d.tool-%d\"", n, i))
			}
			rules := fmt.Sprintf("@id(\"provider-p%d.allow\")\npermit (principal, action in [\n%s\n], resource);\n\n@id(\"provider-p%d.ask\")\npermit (principal, action in [\n%s\n], resource)\nwhen { context.consent };\n",
				n, strings.Join(allowed, ",\n"), n, strings.Join(asked, ",\n"))
			must(t, os.WriteFile(filepath.Join(dir, "policy", provider.RuleFile(p.Name)), []byte(rules), 0o600))
			record, err := json.Marshal(p)
			must(t, err)
			body, err := json.Marshal(m)
			must(t, err)
			_, err = tx.Exec(`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, 0)`, m.Hash(), string(body))
			must(t, err)
			_, err = tx.Exec(`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at) VALUES ($1, 'n1', $2, $3, 'admin', 0, 0)`, p.Name, string(record), m.Hash())
			must(t, err)
			for i := range m.Tools {
				_, err := tx.Exec(`INSERT INTO provider_tool (provider, upstream, state, approved, effect, canary) VALUES ($1, $2, $3, $4, 'allow', '[]')`,
					p.Name, m.Tools[i].Name, string(provider.Active), m.Tools[i].Hash())
				must(t, err)
			}
		}
		return nil
	}))
}

// S4-14: the tools of providers are registered again at each start, and the rules of their
// approval hold again.
func TestAStartRegistersTools(t *testing.T) {
	o := options(t)
	hosted(t, o.Dir, 3, 5)
	open(t, o).Close()
	g := open(t, o)
	d, ok := g.Registry.Get("tool.p2.tool-4")
	if !ok || d.Provider != "p2" || len(g.Registry.Now().Hosts("p2")) != 1 {
		t.Fatalf("%+v %v", d, ok)
	}
	if _, bad, err := d.SplitArgs([]byte(`{"path":"a","count":5}`)); err != nil || len(bad) != 1 {
		t.Errorf("%v %v", bad, err)
	}
}

// BenchmarkStartTenThousand is the start of a gateway whose 20 providers have 10,000 tools, until
// it could serve; its floor is the same gateway without any.
func BenchmarkStartTenThousand(b *testing.B) {
	for _, c := range []struct {
		name            string
		providers, each int
	}{{"start", 20, 500}, {"floor", 0, 0}} {
		o := options(b)
		hosted(b, o.Dir, c.providers, c.each)
		g, err := Open(b.Context(), o)
		must(b, err)
		g.Close()
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				g, err := Open(b.Context(), o)
				must(b, err)
				if len(g.Providers.List()) != c.providers || g.Registry.Len() < c.providers*c.each {
					b.Fatal(g.Registry.Len())
				}
				b.StopTimer()
				g.Close()
				b.StartTimer()
			}
		})
	}
}
