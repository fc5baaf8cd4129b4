package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

// many keeps providers with that many active tools each in a store, as Add and Approve leave them.
func many(t testing.TB, providers, each int) *store.Store {
	t.Helper()
	ctx := context.Background()
	db, err := store.Open(ctx, store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	err = db.Write(ctx, func(tx *store.Tx) error {
		for n := range providers {
			p := tools.Provider{Name: fmt.Sprintf("p%d", n), Kind: tools.KindMCP, URL: "https://example.com/mcp"}
			m := tools.ToolManifest{Provider: p.Name}
			for i := range each {
				m.Tools = append(m.Tools, tools.RemoteTool{
					Name: fmt.Sprintf("tool-%d", i), Description: "Does one thing, of which there are many, to the file that it is given.",
					Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},"count":{"type":"integer"}},"required":["path"]}`),
				})
			}
			record, err := json.Marshal(p)
			if err != nil {
				return err
			}
			body, err := json.Marshal(m)
			if err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO manifest (hash, body, at) VALUES ($1, $2, 0)`, m.Hash(), string(body)); err != nil {
				return err
			}
			if _, err := tx.Exec(`INSERT INTO provider (name, host, record, manifest, created_by, created_at, checked_at) VALUES ($1, 'n1', $2, $3, 'admin', 0, 0)`, p.Name, string(record), m.Hash()); err != nil {
				return err
			}
			for i := range m.Tools {
				if _, err := tx.Exec(`INSERT INTO provider_tool (provider, upstream, state, approved, effect, canary) VALUES ($1, $2, $3, $4, 'allow', '[]')`,
					p.Name, m.Tools[i].Name, string(Active), m.Tools[i].Hash()); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func opened(t testing.TB, db *store.Store) *registry.Registry {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	r := registry.New(cat, slog.New(slog.DiscardHandler))
	if _, err := Open(context.Background(), Options{Store: db, Registry: r}); err != nil {
		t.Fatal(err)
	}
	return r
}

// S4-14: the tools of providers are registered again at each start.
func TestOpenRegistersTools(t *testing.T) {
	r := opened(t, many(t, 3, 5))
	if d, ok := r.Get("tool.p2.tool-4"); !ok || d.Provider != "p2" || len(r.Now().Hosts("p2")) != 1 {
		t.Errorf("%+v %v", d, ok)
	}
}

// BenchmarkOpenTenThousand is what 10,000 tools of 20 providers add to a start; its floor is
// reading what the store has of them.
func BenchmarkOpenTenThousand(b *testing.B) {
	db := many(b, 20, 500)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			if r := opened(b, db); r.Len() < 10_000 {
				b.Fatal(r.Len())
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			rows, err := db.Read().Query(`SELECT provider, upstream, state, approved FROM provider_tool`)
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for rows.Next() {
				var fields [4]string
				if err := rows.Scan(&fields[0], &fields[1], &fields[2], &fields[3]); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if err := rows.Close(); err != nil || n != 10_000 {
				b.Fatal(n, err)
			}
		}
	})
}
