package job

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/robfig/cron/v3"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Bounds.
const (
	MaxText   = 64 << 10 // of a task, and of a pipeline
	MaxListed = 500
	maxResult = 16 << 10
	maxName   = 128
	maxEach   = 1000 // jobs of one principal that have not ended
	keptEach  = 1000 // of those that have; the oldest go first
	keeps     = 30 * 24 * time.Hour
	Lease     = 30 * time.Second // without a word of its worker; then another takes the job
	maxTaken  = 20               // how often a job is taken before it fails: it may be what kills its workers
	sweep     = time.Hour
)

// The states of a job.
const (
	Queued    = api.JobQueued
	Running   = api.JobRunning
	Done      = api.JobDone
	Failed    = api.JobFailed
	Cancelled = api.JobCancelled
)

// Job is one job.
type Job = api.Job

// Recorded is the body of the packets worker.job.*.
type Recorded struct {
	Job    string            `json:"job_id"`
	Run    int               `json:"run,omitempty"`
	State  string            `json:"state"`
	Worker string            `json:"worker,omitempty"`
	Code   capabilities.Code `json:"code,omitempty"`
	// Parent is the call of a sub-agent that the job is inside of.
	Parent capabilities.CallID `json:"parent_call_id,omitempty"`
}

// Migrations are the tables of this room.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "job", Version: 1, SQL: `
		CREATE TABLE jobs (
			job        INTEGER PRIMARY KEY,
			id         TEXT NOT NULL UNIQUE,
			principal  TEXT NOT NULL,
			lane       TEXT NOT NULL,
			state      TEXT NOT NULL,
			priority   INTEGER NOT NULL,
			due_ms     INTEGER NOT NULL,
			until_ms   INTEGER NOT NULL,
			created_ms INTEGER NOT NULL,
			body       TEXT NOT NULL
		) STRICT;
		CREATE INDEX jobs_next ON jobs (principal, state, priority DESC, due_ms)`},
		{Room: "job", Version: 2, SQL: `ALTER TABLE jobs ADD COLUMN under TEXT NOT NULL DEFAULT ''`},
		// Of several gateways that serve at once, the one whose call the job is inside of.
		{Room: "job", Version: 3, SQL: `ALTER TABLE jobs ADD COLUMN member TEXT NOT NULL DEFAULT ''`}}
}

// Options of Open.
type Options struct {
	Store *store.Store // required, opened with Migrations
	Key   []byte       // required: seals what jobs say, 32 bytes; lost, all jobs are lost
	// Record writes a packet in the same transaction; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Spread has the other gateways of the site know that a worker asked here, now and then. It does
	// not block. Default: there are none.
	Spread func(p capabilities.PrincipalID, under capabilities.LaneID)
	Now    func() time.Time // default time.Now
}

// Jobs is the queue. Its methods are safe for concurrent use.
type Jobs struct {
	opts    Options
	aead    cipher.AEAD
	opened  time.Time
	mu      sync.Mutex
	changed chan struct{}       // closed at the next put
	moved   chan struct{}       // closed at the next change of any job
	asked   map[asker]time.Time // when a worker asked last
	spread  map[asker]time.Time // when the other gateways were told of it last
	seen    figures             // of the store, as other gateways changed it; of its writer alone
}

// Open makes it over a store; Run sweeps.
func Open(o Options) (*Jobs, error) {
	if o.Store == nil {
		return nil, errors.New("job: Options.Store is required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	aead, err := chacha20poly1305.NewX(o.Key)
	if err != nil {
		return nil, errors.New("job: Options.Key has 32 bytes")
	}
	return &Jobs{opts: o, aead: aead, opened: o.Now(), changed: make(chan struct{}), moved: make(chan struct{}),
		asked: map[asker]time.Time{}, spread: map[asker]time.Time{}}, nil
}

// check returns when a job is due.
func check(n *api.NewJob, now time.Time) (due time.Time, err error) {
	bad := func(format string, args ...any) error {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...)
	}
	if n.Text == "" && n.Pipeline == "" || len(n.Text) > MaxText || !utf8.ValidString(n.Text) {
		return due, bad("a job's text has 1 to %d bytes", MaxText)
	}
	if len(n.Pipeline) > MaxText || !utf8.ValidString(n.Pipeline) {
		return due, bad("a job's pipeline has at most %d bytes of text", MaxText)
	}
	if n.Priority < -100 || n.Priority > 100 {
		return due, bad("a priority is from -100 to 100")
	}
	if err := capabilities.ValidateName("lane", string(n.Lane), maxName); err != nil {
		return due, err
	}
	if n.Request != "" {
		if err := capabilities.ValidateName("request_id", n.Request, maxName); err != nil {
			return due, err
		}
	}
	due = now
	if !n.Due.IsZero() {
		due = n.Due
	}
	if n.Schedule != "" {
		s, err := schedule(n.Schedule)
		if err != nil {
			return due, err
		}
		if n.Due.IsZero() {
			due = s.Next(now.UTC())
		}
	}
	return due, nil
}

// schedule reads when a job recurs.
func schedule(text string) (cron.Schedule, error) {
	if len(text) > maxName {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a schedule has at most %d bytes", maxName)
	}
	s, err := cron.ParseStandard(text)
	if err != nil || s.Next(time.Now()).IsZero() {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the schedule is not one that cron reads and that ever comes").
			WithHint("Write minute, hour, day, month and weekday, such as 0 7 * * 1-5, or @daily.")
	}
	return s, nil
}

// Put queues a job of a principal, as by wants it. The same request ID again returns the job that
// it made.
func (j *Jobs) Put(ctx context.Context, p, by capabilities.PrincipalID, n api.NewJob) (Job, error) {
	now := j.opts.Now()
	due, err := check(&n, now)
	if err != nil {
		return Job{}, err
	}
	return j.put(ctx, by, Job{
		ID: newID(string(p), n.Request), Principal: p, Lane: n.Lane, Text: n.Text, Pipeline: n.Pipeline, Priority: n.Priority,
		Schedule: n.Schedule, Due: due.UTC(), State: Queued, Run: 1, Created: now.UTC(),
	})
}

func (j *Jobs) put(ctx context.Context, by capabilities.PrincipalID, one Job) (Job, error) {
	err := j.opts.Store.Write(ctx, func(tx *store.Tx) error {
		switch known, err := j.getIn(tx, one.ID); {
		case err == nil:
			if known.Text != one.Text || known.Pipeline != one.Pipeline || known.Schedule != one.Schedule || known.Lane != one.Lane {
				return &capabilities.Error{Code: capabilities.CodeRequestIDConflict}
			}
			one = known
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		var open int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM jobs WHERE principal = $1 AND state IN ('queued','running')`, string(one.Principal)).
			Scan(&open); err != nil {
			return err
		}
		if open >= maxEach {
			return capabilities.Errorf(capabilities.CodeOverloaded, "%d jobs are queued", maxEach)
		}
		if err := j.saveIn(tx, &one, true); err != nil {
			return err
		}
		return j.record(tx, "worker.job.queued", by, &one)
	})
	if err == nil {
		j.tell()
	}
	return one, err
}

// newID is a job's; of the same principal and request the same one.
func newID(p, request string) string {
	var raw [8]byte
	if request != "" {
		sum := sha256.Sum256([]byte(p + "\x00" + request))
		copy(raw[:], sum[:])
	} else {
		rand.Read(raw[:]) // never fails
	}
	return "job_" + hex.EncodeToString(raw[:])
}

func (j *Jobs) record(tx *store.Tx, kind string, by capabilities.PrincipalID, one *Job) error {
	return j.opts.Record(tx, kind, by, Recorded{one.ID, one.Run, one.State, one.Worker, one.Code, one.Parent})
}

func (j *Jobs) tell() {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.changed)
	j.changed = make(chan struct{})
	j.moveLocked()
}

func (j *Jobs) move() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.moveLocked()
}

func (j *Jobs) moveLocked() {
	close(j.moved)
	j.moved = make(chan struct{})
}

// Moved is closed when a job is another than before, by a worker's word, too; ask again for the
// next.
func (j *Jobs) Moved() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.moved
}

// Changed is closed when a job may be there to take; ask again for the next.
func (j *Jobs) Changed() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.changed
}

// Run puts in order what an earlier program left, and removes what is over until ctx ends.
func (j *Jobs) Run(ctx context.Context) error {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	begun := false
	for {
		// One that fails is tried again.
		if !begun {
			begun = j.opts.Store.Write(ctx, j.beginIn) == nil
		}
		_ = j.Sweep(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beginIn seals what lies in the clear, and ends what belongs to a call of an earlier program.
func (j *Jobs) beginIn(tx *store.Tx) error { return errors.Join(j.sealIn(tx), j.orphansIn(tx)) }

// Sweep removes jobs that ended long ago.
func (j *Jobs) Sweep(ctx context.Context) error {
	return j.opts.Store.Tidy(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM jobs WHERE state NOT IN ('queued','running') AND due_ms < $1`, j.opts.Now().Add(-keeps).UnixMilli())
		return err
	})
}

// saveIn writes a job's row.
func (j *Jobs) saveIn(tx *store.Tx, one *Job, fresh bool) error {
	body, err := j.seal(one)
	if err != nil {
		return err
	}
	if fresh {
		_, err = tx.Exec(`INSERT INTO jobs (id, principal, lane, under, state, priority, due_ms, until_ms, created_ms, body, member)
			VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)`, one.ID, string(one.Principal), string(one.Lane), string(one.Under), string(one.State),
			one.Priority, one.Due.UnixMilli(), one.Until.UnixMilli(), one.Created.UnixMilli(), body, j.opts.Store.Member())
		return err
	}
	_, err = tx.Exec(`UPDATE jobs SET state = $2, due_ms = $3, until_ms = $4, body = $5 WHERE id = $1`,
		one.ID, string(one.State), one.Due.UnixMilli(), one.Until.UnixMilli(), body)
	return err
}

func (j *Jobs) getIn(tx *store.Tx, id string) (Job, error) {
	return j.scan(tx.QueryRow(`SELECT id, body FROM jobs WHERE id = $1`, id))
}

func (j *Jobs) scan(row interface{ Scan(...any) error }) (one Job, err error) {
	var id, body string
	if err := row.Scan(&id, &body); err != nil {
		return Job{}, err
	}
	return j.open(id, body)
}

func unknown(id string) error {
	return capabilities.Errorf(capabilities.CodeNotFound, "there is no job %s", capabilities.Escape(capabilities.Clip(id, 40)))
}

// Get returns a job of a principal, "" for anybody's; CodeNotFound if there is none.
func (j *Jobs) Get(ctx context.Context, p capabilities.PrincipalID, id string) (Job, error) {
	one, err := j.scan(
		j.opts.Store.Read().QueryRowContext(ctx, `SELECT id, body FROM jobs WHERE id = $1 AND ($2 = '' OR principal = $2)`, id, string(p)))
	if errors.Is(err, sql.ErrNoRows) {
		return Job{}, unknown(id)
	}
	one.Claim = ""
	return one, err
}

// List returns the newest jobs of a principal, "" for everybody's, at most limit.
func (j *Jobs) List(ctx context.Context, p capabilities.PrincipalID, limit int) ([]Job, error) {
	rows, err := j.opts.Store.Read().QueryContext(ctx, `SELECT id, body FROM jobs WHERE $1 = '' OR principal = $1
		ORDER BY job DESC LIMIT $2`, string(p), min(limit, MaxListed))
	if err != nil {
		return nil, err
	}
	list, err := j.scanAll(rows)
	for i := range list {
		list[i].Claim, list[i].Pipeline = "", ""
	}
	return list, err
}
