package rules

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A draft is a set that somebody wrote at a surface and that is not in force. It
// lies in the store under its hash, beside the sets that were, and not in the
// policy folder: that one belongs to who sits at the machine, and `handrail up` puts
// it in force at its start, which must never be a way round an activation.

// maxDrafts is how many are kept; the oldest make room.
const maxDrafts = 32

// Draft is one of them, without its files.
type Draft struct {
	N        int64
	Snapshot string
	Base     string // what it was made from
	By       capabilities.PrincipalID
	At       time.Time
}

// Edit is a change of a set.
type Edit struct {
	By     capabilities.PrincipalID
	Base   string          // Active (default), Staged, or a hash
	Files  []policy.Source // that are new or other than in Base
	Remove []string        // names of files
}

// Stage makes a set of another one and keeps it under its hash, for Activate. It loads, or nothing
// is kept and the error says where it does not. Its rules count only once it is activated.
func (b *Book) Stage(ctx context.Context, e Edit) (*policy.Engine, error) {
	base, err := b.Load(ctx, e.Base)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, s := range base.Sources() {
		files[s.Name] = s.Data
	}
	for _, s := range e.Files {
		if err := fileName(s.Name); err != nil {
			return nil, err
		}
		files[s.Name] = s.Data
	}
	for _, name := range e.Remove {
		if _, there := files[name]; !there {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "there is no file %.128q to remove", name)
		}
		delete(files, name)
	}
	var sources []policy.Source
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sources = append(sources, policy.Source{Name: name, Data: files[name]})
	}
	engine, err := b.load(sources)
	if err != nil {
		return nil, err
	}
	var kept []keptFile
	for _, s := range engine.Sources() {
		kept = append(kept, keptFile(s))
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	d := Draft{Snapshot: engine.SnapshotID(), Base: base.SnapshotID(), By: e.By, At: b.opts.Now()}
	return engine, b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM policy_drafts WHERE snapshot = $1`, d.Snapshot); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO policy_drafts (snapshot, base, by, at_ms, files) VALUES ($1, $2, $3, $4, $5)`,
			d.Snapshot, d.Base, string(d.By), d.At.UnixMilli(), string(text)); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM policy_drafts WHERE n NOT IN (SELECT n FROM policy_drafts ORDER BY n DESC LIMIT $1)`,
			maxDrafts); err != nil {
			return err
		}
		return b.opts.Staged(tx, d)
	})
}

// fileName: what a policy file may be called where no folder says so.
func fileName(s string) error {
	name, ok := strings.CutSuffix(s, ".cedar")
	if !ok || name == "" || len(name) > 60 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return capabilities.Errorf(capabilities.CodeInvalidRequest,
			"%.80q is no name of a policy file: letters, digits, - and _, and .cedar at its end", s)
	}
	return nil
}

// Drafts returns the sets that were staged at a surface, newest first, without those
// that are in force.
func (b *Book) Drafts(ctx context.Context) ([]Draft, error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT n, snapshot, base, by, at_ms FROM policy_drafts ORDER BY n DESC LIMIT $1`,
		maxDrafts)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all, active := []Draft{}, b.Engine().SnapshotID()
	for rows.Next() {
		var d Draft
		var ms int64
		if err := rows.Scan(&d.N, &d.Snapshot, &d.Base, &d.By, &ms); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		d.At = time.UnixMilli(ms).UTC()
		if d.Snapshot != active {
			all = append(all, d)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return all, nil
}
