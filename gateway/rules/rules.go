package rules

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room: every set that was in force, by hash,
// and when each came into force.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "rules", Version: 1, SQL: `
		CREATE TABLE policy_sets (
			snapshot TEXT PRIMARY KEY,
			files    TEXT NOT NULL
		) STRICT;
		CREATE TABLE policy_history (
			n        INTEGER PRIMARY KEY,
			snapshot TEXT NOT NULL,
			before   TEXT NOT NULL,
			by       TEXT NOT NULL,
			reason   TEXT NOT NULL,
			at_ms    INTEGER NOT NULL
		) STRICT`}, {Room: "rules", Version: 2, SQL: `
		CREATE TABLE policy_drafts (
			n        INTEGER PRIMARY KEY,
			snapshot TEXT NOT NULL,
			base     TEXT NOT NULL,
			by       TEXT NOT NULL,
			at_ms    INTEGER NOT NULL,
			files    TEXT NOT NULL
		) STRICT`}, {Room: "rules", Version: 3, SQL: `
		ALTER TABLE policy_history ADD COLUMN folder TEXT NOT NULL DEFAULT ''`}} // the set that the folder's files were then
}

// maxSets is how many of the newest activations keep their sets, for replays and for going back.
// Each set is kept once, by its hash.
const maxSets = 2000

// MaxReason bounds a reason, in bytes.
const MaxReason = 500

// Staged and Active name sets in place of a hash.
const (
	Staged = "staged"
	Active = "active"
)

// Options of Open.
type Options struct {
	Dir   string       // the policy folder; required
	Tools policy.Tools // what rules can speak about, until Adopt says otherwise; required
	Store *store.Store // required, opened with Migrations
	// Record writes packets in the same transaction as an activation; default: none.
	Record func(tx *store.Tx, a Activated) error
	// Refused does the same for an activation that the set in force forbids; default: none.
	Refused func(tx *store.Tx, a Activated) error
	// Staged does the same for a set that somebody staged; default: none.
	Staged func(tx *store.Tx, d Draft) error
	// Persons are those who sign in and call, as policy judges them: a set under which none of them
	// could activate another is refused. None: there is nobody yet.
	Persons func() []policy.Request
	Files   Files
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default: discards
}

// Files says what becomes of the folder's files when a gateway starts. The first
// ones come into force in any case.
type Files int

const (
	FilesStaged  Files = iota // they wait until somebody activates them
	FilesChanged              // they come into force if they changed since anything last did: for who starts a gateway at their own machine
	FilesTaken                // they come into force, whatever was activated since
)

// Version is one activation.
type Version struct {
	N        int64
	Snapshot string
	Before   string // what it replaced
	By       capabilities.PrincipalID
	Reason   string
	At       time.Time
}

// Activated is what is recorded of an activation, or of one that was refused: then its
// Decision is a denial, and nothing is in force that was not.
type Activated struct {
	Version
	*admin.Call // the admin work that it is
	Files       []string
}

// Book is the set in force and all sets there were. All methods are safe for
// concurrent use.
type Book struct {
	opts    Options
	loader  atomic.Pointer[policy.Loader]
	engine  atomic.Pointer[policy.Engine]
	turning sync.Mutex // one activation or adoption at a time, its commit included

	// swapping is above the pair of loader and engine, and never held over a commit: the store's
	// writer takes it, too.
	swapping sync.Mutex
	past     bool // the set in force names tools that are not known here yet

	mu      sync.Mutex
	changed chan struct{}
}

// Open loads the set that was in force. The first time, that is what the folder
// holds; a set in force that no longer loads, because the tools have changed, is an
// error that says so.
func Open(ctx context.Context, o Options) (*Book, error) {
	if o.Dir == "" || o.Tools == nil || o.Store == nil {
		return nil, errors.New("rules: Dir, Tools and Store are required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, Activated) error { return nil }
	}
	if o.Refused == nil {
		o.Refused = func(*store.Tx, Activated) error { return nil }
	}
	if o.Staged == nil {
		o.Staged = func(*store.Tx, Draft) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &Book{opts: o, changed: make(chan struct{})}
	loader, err := policy.NewLoader(o.Tools)
	if err != nil {
		return nil, err
	}
	b.loader.Store(loader)
	last, found, err := b.last(ctx)
	if err != nil {
		return nil, err
	}
	files, stagedErr := b.staged()
	keep := found && o.Files == FilesStaged
	if found && o.Files == FilesChanged && stagedErr == nil {
		if keep, err = b.unchanged(ctx, files); err != nil {
			return nil, err
		}
	}
	if keep {
		sources, err := b.sources(ctx, last.Snapshot)
		if err != nil {
			return nil, err
		}
		engine, err := b.load(sources)
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err,
				"The policy in force does not fit this program: "+capabilities.AsError(err).PublicMessage()).
				WithAction(capabilities.Action{Key: capabilities.ActionTakePolicyFiles}, "Correct the files in the policy folder, and start with them.")
		}
		b.engine.Store(engine)
		if stagedErr == nil && alike(files, engine.Sources()) { // as nearly always
			return b, nil
		}
		if staged, err := b.load(files); stagedErr != nil || err != nil {
			o.Log.Error("policy.staged", "err", errors.Join(stagedErr, err), "in_force", engine.SnapshotID())
		} else if staged.SnapshotID() != engine.SnapshotID() {
			o.Log.Warn("policy.staged", "staged", staged.SnapshotID(), "in_force", engine.SnapshotID(), "do", capabilities.ActionReviewPolicy)
		}
		return b, nil
	}
	if stagedErr != nil {
		return nil, stagedErr
	}
	engine, err := b.load(files)
	if err != nil {
		return nil, err
	}
	if !found || engine.SnapshotID() != last.Snapshot {
		a := Activated{
			Version: Version{Snapshot: engine.SnapshotID(), Before: last.Snapshot, By: "site", Reason: "taken from the policy folder at the start"},
		}
		if err := b.locksOut(engine); err != nil {
			return nil, err
		}
		if a.Call, err = admin.Taken(engine, asked(&a.Version, "admin", "site"), o.Now()); err != nil {
			return nil, err
		}
		if err := b.commit(ctx, engine, a); err != nil {
			return nil, err
		}
	} else if err := b.seen(ctx, engine.SnapshotID()); err != nil {
		return nil, err
	}
	b.engine.Store(engine)
	return b, nil
}

// alike reports whether two sets have the same files; b is sorted by name.
func alike(a, b []policy.Source) bool {
	a = slices.SortedFunc(slices.Values(a), func(a, b policy.Source) int { return strings.Compare(a.Name, b.Name) })
	return slices.EqualFunc(a, b, func(a, b policy.Source) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}

// unchanged tells whether files are what the folder held when a set last came into
// force: that set holds on then.
func (b *Book) unchanged(ctx context.Context, files []policy.Source) (bool, error) {
	engine, err := b.load(files)
	if err != nil {
		return false, err
	}
	var then string
	err = b.opts.Store.Read().QueryRowContext(ctx, `SELECT folder FROM policy_history ORDER BY n DESC LIMIT 1`).Scan(&then)
	if err != nil {
		return false, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return then == engine.SnapshotID(), nil
}

// seen notes what the folder holds now, which is what is in force.
func (b *Book) seen(ctx context.Context, snapshot string) error {
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE policy_history SET folder = $1 WHERE n = (SELECT max(n) FROM policy_history)`, snapshot)
		return err
	})
}

// load makes an engine of files, over the tools of this moment.
func (b *Book) load(sources []policy.Source) (*policy.Engine, error) {
	return b.loader.Load().Load(sources)
}

// Adopt has the set in force judge other tools than it did: from its return on, Engine
// knows them, and what is loaded may name them. The set itself, its hash and the grants
// that rest on it stay as they are. CodeConflict if the set does not load with these tools;
// nothing has changed then.
func (b *Book) Adopt(tools policy.Tools) error {
	b.turning.Lock()
	defer b.turning.Unlock()
	loader, err := policy.NewLoader(tools)
	if err != nil {
		return err
	}
	b.swapping.Lock()
	defer b.swapping.Unlock()
	sources := b.Engine().Sources()
	engine, err := loader.Load(sources)
	still := err != nil && b.past
	if still { // they are registered one provider after the other
		engine, err = loader.LoadPast(sources)
	}
	if err != nil {
		return capabilities.Wrap(capabilities.CodeConflict, err, "The policy in force cannot judge these tools: "+capabilities.AsError(err).
			PublicMessage()).
			WithHint("Correct the rules named, activate them, and register the tools again.")
	}
	b.loader.Store(loader)
	b.engine.Store(engine)
	b.past = still
	return nil
}

// Engine is the policy in force.
func (b *Book) Engine() *policy.Engine { return b.engine.Load() }

// Changed is closed when another set comes into force; ask again for the one after.
func (b *Book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Load returns a set by name: Staged, Active, or a hash of the history or of a draft,
// of which the first 8 digits or more are enough.
func (b *Book) Load(ctx context.Context, name string) (*policy.Engine, error) {
	switch name {
	case "", Active:
		return b.Engine(), nil
	case Staged:
		files, err := b.staged()
		if err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The policy folder cannot be read.")
		}
		return b.load(files)
	}
	sources, err := b.sources(ctx, name)
	if err != nil {
		return nil, err
	}
	return b.load(sources)
}

// Request is an activation as somebody wants it.
type Request struct {
	By     capabilities.PrincipalID
	Role   string
	Lane   capabilities.LaneID
	To     string // the hash of the set that is meant: what the person looked at
	From   string // the hash of the set that it replaces
	Reason string // at most MaxReason bytes
}

// Activate puts a set in force. It is a privileged call of its own
// (privileged.admin.mutate_policy): only a person makes it, the confirmation is
// bound to exactly these two hashes, the set in force may forbid it
// (policy.ActivatePolicy), and it is recorded with its envelope before it counts.
// CodeConflict if either is not what the person looked at.
func (b *Book) Activate(ctx context.Context, r Request) (Version, error) {
	b.turning.Lock()
	defer b.turning.Unlock()
	if !policy.IsUser(r.Role) {
		return Version{}, capabilities.Errorf(capabilities.CodeForbidden, "an agent cannot activate a policy")
	}
	if len(r.Reason) > MaxReason {
		return Version{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "reason must be at most %d bytes", MaxReason)
	}
	active := b.Engine()
	if r.From != active.SnapshotID() {
		return Version{}, superseded()
	}
	engine, err := b.Load(ctx, Staged)
	if err != nil || engine.SnapshotID() != r.To {
		var kept error
		if engine, kept = b.Load(ctx, r.To); kept != nil {
			if err != nil {
				return Version{}, err
			}
			return Version{}, capabilities.Errorf(capabilities.CodeConflict, "the files in the policy folder are not the ones that were looked at").
				WithAction(capabilities.Action{Key: capabilities.ActionReviewPolicy}, "Look at the difference again.")
		}
	}
	if engine.SnapshotID() == active.SnapshotID() {
		return Version{}, capabilities.Errorf(capabilities.CodeConflict, "that policy is in force already")
	}
	a, err := b.judge(active, engine, r)
	if err != nil {
		return Version{}, err
	}
	if d := a.Decision; d.Effect == policy.Deny {
		if err := b.opts.Store.Write(ctx, func(tx *store.Tx) error { return b.opts.Refused(tx, a) }); err != nil {
			return Version{}, err
		}
		return Version{}, capabilities.Errorf(d.Code, "%s", d.Reason)
	}
	if err := b.locksOut(engine); err != nil {
		return Version{}, err
	}
	if err := b.commit(ctx, engine, a); err != nil {
		return Version{}, err
	}
	b.opts.Log.Warn("policy.activated", "snapshot", engine.SnapshotID(), "before", active.SnapshotID(), "by", r.By)
	last, _, err := b.last(ctx)
	return last, err
}

// judge makes the envelope of an activation and has the set in force decide on it.
func (b *Book) judge(active, next *policy.Engine, r Request) (Activated, error) {
	a := Activated{Version: Version{Snapshot: next.SnapshotID(), Before: active.SnapshotID(), By: r.By, Reason: r.Reason}}
	var err error
	a.Call, err = admin.Decide(active, asked(&a.Version, r.Role, r.Lane), b.opts.Now())
	return a, err
}

// asked is an activation as the admin work that it is.
func asked(v *Version, role string, lane capabilities.LaneID) admin.Asked {
	return admin.Asked{
		Tool: policy.ActivationTool, By: v.By, Role: role, Lane: lane, Surface: "policy",
		Touches: map[string]any{"from": v.Before, "to": v.Snapshot, "reason": v.Reason},
	}
}

// locksOut refuses a set under which nobody could activate another, or look at it before. The owner
// of the policy folder still can, by starting the gateway on its files.
func (b *Book) locksOut(next *policy.Engine) error {
	if b.opts.Persons == nil {
		return nil
	}
	persons := b.opts.Persons()
	for _, p := range persons {
		p.Time = b.opts.Now()
		if next.MayDo(p, "policy.read").Effect == policy.Allow && next.MayDo(p, string(policy.ActivationTool)).Effect == policy.Allow {
			return nil
		}
	}
	if len(persons) == 0 {
		return nil
	}
	return &capabilities.Error{Code: capabilities.CodePolicyLocksOut}
}

// keptFile is a policy file as it stands in the store.
type keptFile struct {
	Name string `json:"name"`
	Data []byte `json:"text"`
}

func (b *Book) commit(ctx context.Context, engine *policy.Engine, a Activated) error {
	var files []keptFile
	for _, s := range engine.Sources() {
		files = append(files, keptFile(s))
		a.Files = append(a.Files, s.Name)
	}
	text, err := json.Marshal(files)
	if err != nil {
		return err
	}
	folder := "" // one that does not load has no hash; once it does, it has changed
	if staged, err := b.Load(ctx, Staged); err == nil {
		folder = staged.SnapshotID()
	}
	a.At = b.opts.Now()
	return b.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if now := b.Engine(); now != nil && now.SnapshotID() != a.Before { // the writer read it anew
			return superseded()
		}
		tx.OnCommit(func() { // before Again, which may read a later one
			b.swapping.Lock()
			defer b.swapping.Unlock()
			b.turnedLocked(engine, false)
		})
		if _, err := tx.Exec(`INSERT INTO policy_sets (snapshot, files) VALUES ($1, $2) ON CONFLICT (snapshot) DO NOTHING`, a.Snapshot,
			string(text)); err != nil {
			return err
		}
		// It is no draft any more: its files are kept once.
		if _, err := tx.Exec(`DELETE FROM policy_drafts WHERE snapshot = $1`, a.Snapshot); err != nil {
			return err
		}
		if _, err := tx.Exec(
			`DELETE FROM policy_sets WHERE snapshot <> $1 AND snapshot NOT IN (SELECT snapshot FROM policy_history ORDER BY n DESC LIMIT $2)`,
			a.Snapshot, maxSets); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO policy_history (snapshot, before, by, reason, at_ms, folder) VALUES ($1, $2, $3, $4, $5, $6)`,
			a.Snapshot, a.Before, string(a.By), a.Reason, a.At.UnixMilli(), folder); err != nil {
			return err
		}
		return b.opts.Record(tx, a)
	})
}

// sources returns a kept set by its hash, or by the beginning of it.
func (b *Book) sources(ctx context.Context, snapshot string) ([]policy.Source, error) {
	hash, _ := hex.DecodeString(trimHash(snapshot)[:len(trimHash(snapshot))&^1])
	if len(trimHash(snapshot)) < 8 || len(hash) != len(trimHash(snapshot))/2 {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.80q is no policy: give staged, active, or 8 digits or more of a hash",
			snapshot)
	}
	prefix := "sha256:" + trimHash(snapshot)
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT files FROM policy_sets WHERE snapshot >= $1 AND snapshot < $2
		UNION SELECT files FROM policy_drafts WHERE snapshot >= $3 AND snapshot < $4 LIMIT 2`, prefix, prefix+"~", prefix, prefix+"~")
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	var found []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		found = append(found, text)
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	if len(found) != 1 {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no such policy in the history, or more than one")
	}
	var files []keptFile
	if err := json.Unmarshal([]byte(found[0]), &files); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "a policy in the store cannot be read")
	}
	sources := make([]policy.Source, 0, len(files))
	for _, f := range files {
		sources = append(sources, policy.Source(f))
	}
	return sources, nil
}

func trimHash(s string) string {
	if len(s) > 7 && s[:7] == "sha256:" {
		return s[7:]
	}
	return s
}

func (b *Book) last(ctx context.Context) (Version, bool, error) {
	all, err := b.history(ctx, 1)
	if err != nil || len(all) == 0 {
		return Version{}, false, err
	}
	return all[0], true, nil
}

// maxHistory bounds one answer about the history.
const maxHistory = 1000

// History returns the newest activations, newest first, at most limit (default 100).
func (b *Book) History(ctx context.Context, limit int) ([]Version, error) {
	if limit <= 0 {
		limit = 100
	}
	return b.history(ctx, min(limit, maxHistory))
}

func (b *Book) history(ctx context.Context, limit int) ([]Version, error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx,
		`SELECT n, snapshot, before, by, reason, at_ms FROM policy_history ORDER BY n DESC LIMIT $1`, limit)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all := []Version{}
	for rows.Next() {
		var v Version
		var ms int64
		if err := rows.Scan(&v.N, &v.Snapshot, &v.Before, &v.By, &v.Reason, &ms); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		v.At = time.UnixMilli(ms).UTC()
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	return slices.Clip(all), nil
}
