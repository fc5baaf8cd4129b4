package outcome

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/artifact"
	"github.com/handrail-dev/handrail/gateway/store"
)

const artifactTables = `
CREATE TABLE artifact (
	call_id     TEXT NOT NULL,
	artifact_id TEXT NOT NULL,
	principal   TEXT NOT NULL,
	lane        TEXT NOT NULL,
	node_id     TEXT NOT NULL,
	tool_id     TEXT NOT NULL,
	mime        TEXT NOT NULL,
	size        BIGINT NOT NULL,
	created_ms  BIGINT NOT NULL,
	expires_ms  BIGINT NOT NULL,
	sealed      BLOB NOT NULL,
	PRIMARY KEY (call_id, artifact_id)
);
CREATE INDEX artifact_id ON artifact (artifact_id);
CREATE INDEX artifact_principal ON artifact (principal, created_ms);
CREATE INDEX artifact_expires ON artifact (expires_ms, size);
`

// ArtifactOptions of OpenArtifacts; required unless a default is named.
type ArtifactOptions struct {
	Store *store.Store // opened with Migrations
	Dir   string       // the folder of the sealed files, made if it is not there
	Key   []byte       // artifact.KeySize bytes; lost, everything kept is lost
	Quota int64        // bytes kept in all; default 8 GiB
	// TTL is how long an artifact is kept; default 24 h.
	TTL time.Duration
	// Extended is how long one of a call with data.retention.extended is kept; default 30 days.
	Extended time.Duration
	Log      *slog.Logger     // default: discards
	Now      func() time.Time // default time.Now
}

// Artifacts keeps the artifacts of calls: their bytes in sealed files, what is known
// about them in the store. All methods are safe for concurrent use.
//
// An artifact is there from the commit of its row on; a file without a row is one
// that is still coming, or was given up.
type Artifacts struct {
	opts ArtifactOptions
	root *os.Root

	mu       sync.Mutex
	incoming map[string]int64 // files on their way, with the room that is taken for each
}

// Kept is an artifact that is there, whole and verified.
type Kept struct {
	capabilities.Artifact
	Call      capabilities.CallID
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Node      capabilities.NodeID
	Tool      capabilities.ToolID
	Extended  bool // its retention class (S1-17)
	Created   time.Time
	Expires   time.Time
}

// sweepEvery is how often Run drops what has expired.
const sweepEvery = time.Minute

// The retention classes.
const (
	RetentionStandard = "standard"
	RetentionExtended = "extended"
)

// Retention is its retention class in a word.
func (k *Kept) Retention() string {
	if k.Extended {
		return RetentionExtended
	}
	return RetentionStandard
}

// Retained is how many artifacts of one retention class there are.
type Retained struct {
	Kept    int64
	Overdue int64 // that should have gone by now
}

// Retained counts what is there by its retention class (S1-17). An artifact is overdue once two
// sweeps have not taken it.
func (a *Artifacts) Retained(ctx context.Context) (standard, extended Retained, _ error) {
	rows, err := a.opts.Store.Read().QueryContext(ctx,
		"SELECT extended, COUNT(*), COUNT(CASE WHEN expires_ms < $1 THEN 1 END) FROM artifact GROUP BY extended",
		a.opts.Now().Add(-2*sweepEvery).UnixMilli())
	if err != nil {
		return standard, extended, fmt.Errorf("outcome: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var class bool
		var r Retained
		if err := rows.Scan(&class, &r.Kept, &r.Overdue); err != nil {
			return standard, extended, fmt.Errorf("outcome: %w", err)
		}
		if class {
			extended = r
		} else {
			standard = r
		}
	}
	return standard, extended, rows.Err()
}

// OpenArtifacts makes Artifacts. It starts nothing; Run sweeps.
func OpenArtifacts(o ArtifactOptions) (*Artifacts, error) {
	if o.Store == nil || o.Dir == "" || len(o.Key) != artifact.KeySize {
		return nil, errors.New("outcome: Store, Dir and a Key are required")
	}
	if o.Quota <= 0 {
		o.Quota = 8 << 30
	}
	if o.TTL <= 0 {
		o.TTL = 24 * time.Hour
	}
	if o.Extended <= 0 {
		o.Extended = 30 * 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	key, err := artifact.DeriveKey(o.Key, "handrail artifacts of a gateway 1")
	if err != nil {
		return nil, err
	}
	o.Key = key
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return nil, err
	}
	return &Artifacts{opts: o, root: root, incoming: map[string]int64{}}, nil
}

// Close lets go of the folder. Idempotent.
func (a *Artifacts) Close() error { return a.root.Close() }

// fileOf is the name of an artifact's file: digits only, whatever a call is named.
func fileOf(call capabilities.CallID, id capabilities.ArtifactID) string {
	sum := sha256.Sum256([]byte(string(call) + "|" + string(id)))
	return hex.EncodeToString(sum[:])
}

func (a *Artifacts) box(file string) (*artifact.Box, error) {
	return artifact.NewBox(a.opts.Key, "gateway|"+file)
}

// sealedName is what of a row nobody reads at rest.
type sealedName struct {
	Name  string `json:"name"`
	Field string `json:"field,omitempty"`
}

var errNoArtifact = capabilities.Errorf(capabilities.CodeNotFound, "there is no such file, or not any more").
	WithAction(capabilities.Action{Key: capabilities.ActionListArtifacts}, "Files are kept for a limited time.")

// ArtifactQuery chooses artifacts; the zero value chooses all.
type ArtifactQuery struct {
	ID        capabilities.ArtifactID
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Call      capabilities.CallID
	Limit     int // default 100, at most 1,000
}

const artifactColumns = "call_id, artifact_id, principal, lane, node_id, tool_id, mime, size, created_ms, expires_ms, sealed, extended"

// List returns what is kept and has not expired, the newest first.
func (a *Artifacts) List(ctx context.Context, q ArtifactQuery) ([]Kept, error) {
	if q.Limit <= 0 {
		q.Limit = 100
	}
	rows, err := a.opts.Store.Read().QueryContext(ctx, `SELECT `+artifactColumns+` FROM artifact
		WHERE expires_ms > $1 AND ($2 = '' OR artifact_id = $2) AND ($3 = '' OR principal = $3) AND ($4 = '' OR lane = $4) AND ($5 = '' OR call_id = $5)
		ORDER BY created_ms DESC, call_id DESC LIMIT $6`,
		a.opts.Now().UnixMilli(), string(q.ID), string(q.Principal), string(q.Lane), string(q.Call), min(q.Limit, 1000))
	if err != nil {
		return nil, fmt.Errorf("outcome: %w", err)
	}
	defer rows.Close()
	list := []Kept{}
	for rows.Next() {
		k, err := a.scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, rows.Err()
}

func (a *Artifacts) scan(row scanner) (Kept, error) {
	var k Kept
	var created, expires int64
	var sealed []byte
	if err := row.Scan(&k.Call, &k.ID, &k.Principal, &k.Lane, &k.Node, &k.Tool, &k.MIME, &k.Size, &created, &expires, &sealed,
		&k.Extended); err != nil {
		return k, fmt.Errorf("outcome: %w", err)
	}
	k.Created, k.Expires = time.UnixMilli(created), time.UnixMilli(expires)
	box, err := a.box(fileOf(k.Call, k.ID))
	if err != nil {
		return k, err
	}
	var name sealedName
	if plain, err := box.OpenHead(sealed); err != nil || json.Unmarshal(plain, &name) != nil {
		a.opts.Log.Error("artifact.unsealable", "call", k.Call, "artifact", k.ID)
		name.Name = string(k.ID)[:12]
	}
	k.Name, k.Field = name.Name, name.Field
	return k, nil
}

// find returns the row of a call's artifact.
func (a *Artifacts) find(ctx context.Context, call capabilities.CallID, id capabilities.ArtifactID) (Kept, error) {
	k, err := a.scan(a.opts.Store.Read().QueryRowContext(ctx,
		"SELECT "+artifactColumns+" FROM artifact WHERE call_id = $1 AND artifact_id = $2", string(call), string(id)))
	if errors.Is(err, sql.ErrNoRows) || err == nil && !k.Expires.After(a.opts.Now()) {
		return k, errNoArtifact
	}
	return k, err
}

// Content is the bytes of an artifact, from any place on. Not safe for concurrent use.
type Content struct {
	*artifact.Reader
	file *os.File
}

// Close closes it.
func (c *Content) Close() error { return c.file.Close() }

// Open returns the bytes of an artifact that List returned. CodeNotFound if they are gone.
func (a *Artifacts) Open(k Kept) (*Content, error) {
	file := fileOf(k.Call, k.ID)
	box, err := a.box(file)
	if err != nil {
		return nil, err
	}
	f, err := a.root.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoArtifact
	}
	if err != nil {
		return nil, err
	}
	return &Content{Reader: artifact.NewReader(box, f, k.Size), file: f}, nil
}

// RemoveIn removes an artifact of one call as part of tx; its file goes after the
// commit. It reports whether it was there.
func (a *Artifacts) RemoveIn(tx *store.Tx, call capabilities.CallID, id capabilities.ArtifactID) (bool, error) {
	n, err := tx.Exec("DELETE FROM artifact WHERE call_id = $1 AND artifact_id = $2", string(call), string(id))
	if err != nil {
		return false, fmt.Errorf("outcome: %w", err)
	}
	tx.OnCommit(func() { a.unlink(fileOf(call, id)) })
	return n > 0, nil
}

func (a *Artifacts) unlink(file string) {
	if err := a.root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.opts.Log.Warn("artifact.remove", "file", file, "err", err)
	}
}

// Run sweeps what expired, each minute, until ctx ends.
func (a *Artifacts) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := a.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.opts.Log.Warn("artifact.sweep", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// abandoned is how old a file without a row has to be to count as given up: a
// gateway that comes back goes on with what was coming.
const abandoned = time.Hour

// Sweep removes what expired, and files that belong to nothing.
func (a *Artifacts) Sweep(ctx context.Context) error {
	if err := a.drop(ctx, func(tx *store.Tx) ([]Kept, error) {
		return victims(tx, "WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT 256", a.opts.Now().UnixMilli())
	}); err != nil {
		return err
	}
	dir, err := a.root.Open(".")
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	known := map[string]bool{}
	rows, err := a.opts.Store.Read().QueryContext(ctx, "SELECT call_id, artifact_id FROM artifact")
	if err != nil {
		return fmt.Errorf("outcome: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var call capabilities.CallID
		var id capabilities.ArtifactID
		if err := rows.Scan(&call, &id); err != nil {
			return fmt.Errorf("outcome: %w", err)
		}
		known[fileOf(call, id)] = true
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("outcome: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || known[e.Name()] || a.opts.Now().Sub(info.ModTime()) < abandoned || a.coming(e.Name()) {
			continue
		}
		a.unlink(e.Name())
	}
	return nil
}

func (a *Artifacts) coming(file string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.incoming[file]
	return ok
}

// drop removes what choose returns, until that is nothing.
func (a *Artifacts) drop(ctx context.Context, choose func(*store.Tx) ([]Kept, error)) error {
	for more := true; more; {
		err := a.opts.Store.Write(ctx, func(tx *store.Tx) error {
			list, err := choose(tx)
			for _, k := range list {
				if err == nil {
					_, err = a.RemoveIn(tx, k.Call, k.ID)
				}
			}
			more = len(list) > 0
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func victims(tx *store.Tx, where string, args ...any) ([]Kept, error) {
	rows, err := tx.Query("SELECT call_id, artifact_id, size FROM artifact "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("outcome: %w", err)
	}
	defer rows.Close()
	var list []Kept
	for rows.Next() {
		var k Kept
		if err := rows.Scan(&k.Call, &k.ID, &k.Size); err != nil {
			return nil, fmt.Errorf("outcome: %w", err)
		}
		list = append(list, k)
	}
	return list, rows.Err()
}
