package job

import (
	"context"
	"database/sql"
	"errors"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Inside is what a call of a sub-agent has its worker do (S3-16).
type Inside struct {
	Parent capabilities.CallID
	Under  capabilities.LaneID // of the call
	Tool   capabilities.ToolID // the sub-agent
	Uses   []capabilities.ToolID
	Text   string
}

// PutInside queues the job of a call, in a lane of its own, before all that is not inside a call.
// It is taken once at most.
func (j *Jobs) PutInside(ctx context.Context, p capabilities.PrincipalID, in Inside) (Job, error) {
	now := j.opts.Now()
	id := newID(string(p), "")
	n := api.NewJob{Text: in.Text, Lane: capabilities.LaneID(id), Priority: 100}
	due, err := check(&n, now)
	if err != nil {
		return Job{}, err
	}
	return j.put(ctx, p, Job{
		ID: id, Principal: p, Lane: n.Lane, Under: in.Under, Parent: in.Parent, Tool: in.Tool, Uses: in.Uses, Text: n.Text,
		Priority: n.Priority, Due: due.UTC(), State: Queued, Run: 1, Created: now.UTC(),
	})
}

// Held returns the job of a claim, as long as it is the job's.
func (j *Jobs) Held(ctx context.Context, p capabilities.PrincipalID, id, claim string) (Job, error) {
	one, err := j.scan(j.opts.Store.Read().QueryRowContext(ctx, `SELECT id, body FROM jobs WHERE id = $1`, id))
	return held(one, err, p, id, claim)
}

// held refuses a claim that is not the job's any more.
func held(one Job, err error, p capabilities.PrincipalID, id, claim string) (Job, error) {
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && one.Principal != p:
		return Job{}, unknown(id)
	case err == nil && (claim == "" || one.State != Running || one.Claim != claim):
		return Job{}, capabilities.Errorf(capabilities.CodeForbidden, "the job %s is not this worker's any more", id).
			WithHint("Another worker has it, or it was cancelled: leave it.")
	}
	return one, err
}

// orphansIn ends the jobs of calls that were under way when an earlier program ended: nobody waits
// for them.
//
// Where several gateways serve, those of the others have somebody who waits (see GoneIn).
func (j *Jobs) orphansIn(tx *store.Tx) error {
	if j.opts.Store.Member() != "" {
		return j.GoneIn(tx, "")
	}
	rows, err := tx.Query(`SELECT id, body FROM jobs WHERE under <> '' AND state IN ('queued','running') AND created_ms < $1`,
		j.opened.UnixMilli())
	if err != nil {
		return err
	}
	return j.endIn(tx, rows)
}

// GoneIn ends, as part of tx, the jobs of calls of a gateway that was put out.
func (j *Jobs) GoneIn(tx *store.Tx, member string) error {
	rows, err := tx.Query(`SELECT id, body FROM jobs WHERE under <> '' AND state IN ('queued','running') AND member = $1`, member)
	if err != nil {
		return err
	}
	tx.OnCommit(j.tell)
	return j.endIn(tx, rows)
}

func (j *Jobs) endIn(tx *store.Tx, rows *sql.Rows) error {
	all, err := j.scanAll(rows)
	for i := range all {
		one := &all[i]
		j.over(one, Cancelled, j.opts.Now())
		err = errors.Join(err, j.saveIn(tx, one, false), j.record(tx, "worker.job.cancelled", one.Principal, one))
	}
	return err
}
