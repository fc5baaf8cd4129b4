package secret

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Reference is what an agent may know of a secret (S0-35): enough to name it, never
// the name the admin gave it nor where it is kept.
type Reference struct {
	ID      string
	Alias   string
	Tools   []capabilities.ToolID // at least one
	Display string
	Owner   capabilities.PrincipalID // for admins only
	name    string
}

// Spec is a reference to be made.
type Spec struct {
	Name      string // of the secret
	Principal capabilities.PrincipalID
	Alias     string // optional; unique among the principal's
	Display   string // optional, for people and models
	Tools     []capabilities.ToolID
}

// Allow lets an agent have a secret delivered with some tools. CodeNotFound if there
// is no such secret, CodeConflict if the alias is taken.
func (v *Vault) Allow(ctx context.Context, by capabilities.PrincipalID, s Spec) (Reference, error) {
	if err := capabilities.ValidateName("principal", string(s.Principal), 128); err != nil {
		return Reference{}, err
	}
	if s.Alias != "" {
		if err := capabilities.ValidateName("alias", s.Alias, maxName); err != nil {
			return Reference{}, err
		}
	}
	if !shown(s.Display) {
		return Reference{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "the display name must be plain text of at most %d characters",
			maxName)
	}
	if len(s.Tools) == 0 || len(s.Tools) > 16 {
		return Reference{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "1 to 16 tools must be named")
	}
	for _, t := range s.Tools {
		if t.Validate() != nil || t.Family() == "node" {
			return Reference{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.128q is no tool that takes secrets", t)
		}
	}
	kept, err := v.sources()
	if err != nil {
		return Reference{}, err
	}
	r := Reference{ID: newReferenceID(), Alias: s.Alias, Tools: s.Tools, Display: s.Display, Owner: s.Principal, name: s.Name}
	tools, err := json.Marshal(s.Tools)
	if err != nil {
		return Reference{}, capabilities.AsError(err)
	}
	err = v.opts.Store.Write(ctx, func(tx *store.Tx) error {
		var have, each, same int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM secret WHERE name = $1`, s.Name).Scan(&have); err != nil {
			return err
		}
		if _, elsewhere := kept[s.Name]; have == 0 && !elsewhere {
			return capabilities.Errorf(capabilities.CodeNotFound, "there is no secret %.128q", s.Name).
				WithAction(capabilities.Action{Key: capabilities.ActionSetSecret, Name: s.Name}, "Set it first.")
		}
		if err := tx.QueryRow(`SELECT COUNT(*), COUNT(*) FILTER (WHERE alias = $2) FROM secret_reference WHERE principal = $1`,
			string(s.Principal), s.Alias).Scan(&each, &same); err != nil {
			return err
		}
		switch {
		case same > 0: // S0-36
			return capabilities.Errorf(capabilities.CodeConflict, "%s has a secret with the alias %q already", s.Principal, s.Alias)
		case each >= maxEach:
			return capabilities.Errorf(capabilities.CodeConflict, "%s may use %d secrets already, and no more are listed to an agent", s.Principal,
				maxEach)
		}
		var alias any
		if s.Alias != "" {
			alias = s.Alias
		}
		if _, err := tx.Exec(
			`INSERT INTO secret_reference (ref_id, principal, name, alias, display, tools, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			r.ID, string(s.Principal), s.Name, alias, s.Display, string(tools), v.opts.Now().UnixMilli()); err != nil {
			return err
		}
		return v.opts.Record(tx, "secret.allowed", by, packet.SecretAllowed{
			Name: s.Name, Reference: r.ID, Alias: s.Alias, Principal: s.Principal, Tools: s.Tools,
		})
	})
	if err != nil {
		return Reference{}, err
	}
	return r, v.Load(ctx)
}

// shown reports whether a text may be shown to people and models: short, and without
// what changes how the text around it reads.
func shown(s string) bool {
	return utf8.RuneCountInString(s) <= maxName && capabilities.Printable(s) == s
}

// newReferenceID is 128 bits that nobody can guess, in a form that is safe anywhere.
func newReferenceID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return "sec" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Load reads the references.
func (v *Vault) Load(ctx context.Context) error {
	if err := v.load(ctx); err != nil {
		return err
	}
	v.opts.OnChange()
	return nil
}

func (v *Vault) load(ctx context.Context) error {
	// Under the lock from before the read: what is read later is set later.
	v.mu.Lock()
	defer v.mu.Unlock()
	rows, err := v.opts.Store.Read().QueryContext(ctx,
		`SELECT ref_id, principal, name, COALESCE(alias, ''), display, tools FROM secret_reference`)
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all := map[capabilities.PrincipalID][]Reference{}
	for rows.Next() {
		var r Reference
		var tools string
		if err := rows.Scan(&r.ID, &r.Owner, &r.name, &r.Alias, &r.Display, &tools); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		if err := json.Unmarshal([]byte(tools), &r.Tools); err != nil {
			return capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		all[r.Owner] = append(all[r.Owner], r)
	}
	if err := rows.Err(); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	for _, list := range all {
		sort.Slice(list, func(i, j int) bool {
			return cmp.Or(cmp.Compare(list[i].Alias, list[j].Alias), cmp.Compare(list[i].ID, list[j].ID)) < 0
		})
	}
	v.byOwner = all
	return nil
}

// Usable returns the references that a principal may use with a tool, at most 20.
func (v *Vault) Usable(p capabilities.PrincipalID, tool capabilities.ToolID) []Reference {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var list []Reference
	for _, r := range v.byOwner[p] {
		if slices.Contains(r.Tools, tool) {
			r.Owner = "" // the caller knows who it is
			list = append(list, r)
		}
	}
	return list
}

// Find returns the reference that a selector names among those the principal may use with the tool:
// by ID, or by alias. A reference that does not exist and one that is another's are one answer
// (S0-39).
func (v *Vault) Find(p capabilities.PrincipalID, tool capabilities.ToolID, id, alias string) (Reference, error) {
	for _, r := range v.Usable(p, tool) {
		if id != "" && r.ID == id || id == "" && alias != "" && r.Alias == alias {
			return r, nil
		}
	}
	return Reference{}, capabilities.Errorf(capabilities.CodeInvalidArguments, "That is none of the secrets you may use with this tool.").
		WithHint("Use one of those that the tool's description lists, or ask the admin.")
}

func (v *Vault) withReferences(byName map[string]*Entry) []Entry {
	v.mu.RLock()
	for _, list := range v.byOwner {
		for _, r := range list {
			e := byName[r.name]
			if e == nil { // it was in the sources file once
				e = &Entry{Name: r.name, Source: "missing"}
				byName[r.name] = e
			}
			e.References = append(e.References, r)
		}
	}
	v.mu.RUnlock()
	all := make([]Entry, 0, len(byName))
	for _, e := range byName {
		if e.References == nil {
			e.References = []Reference{}
		}
		sort.Slice(e.References, func(i, j int) bool {
			a, b := &e.References[i], &e.References[j]
			return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID)) < 0
		})
		all = append(all, *e)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
