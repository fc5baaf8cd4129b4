package job

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Take returns to a worker of a principal the next job that is due: the highest priority, then the
// oldest, of a lane where none runs. fresh says that this worker has just started, so that the jobs
// it had before are free again. CodeNotFound: there is none now.
//
// Under is not empty for the jobs alone that calls of sub-agents in that lane made.
func (j *Jobs) Take(ctx context.Context, p capabilities.PrincipalID, ask api.TakeJob) (Job, error) {
	worker, fresh := ask.Worker, ask.Fresh
	if err := capabilities.ValidateName("worker", worker, maxName); err != nil {
		return Job{}, err
	}
	j.attends(p, ask.Under)
	var one Job
	found := false
	err := j.opts.Store.Write(ctx, func(tx *store.Tx) error {
		now := j.opts.Now()
		if err := j.freeIn(tx, p, worker, fresh, now); err != nil {
			return err
		}
		var err error
		one, err = j.scan(tx.QueryRow(`SELECT id, body FROM jobs AS a WHERE principal = $1 AND state = 'queued' AND due_ms <= $2
			AND ($3 = '' OR under = $3) AND NOT EXISTS (SELECT 1 FROM jobs AS b WHERE b.principal = $1 AND b.lane = a.lane AND b.state = 'running')
			ORDER BY priority DESC, due_ms, job LIMIT 1`, string(p), now.UnixMilli(), string(ask.Under)))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		var claim [16]byte
		rand.Read(claim[:]) // never fails
		one.State, one.Worker, one.Claim, one.Until = Running, worker, hex.EncodeToString(claim[:]), now.Add(Lease).UTC()
		one.Taken++
		one.Calls, one.Stage, found = 0, "", true
		if err := j.saveIn(tx, &one, false); err != nil {
			return err
		}
		return j.record(tx, "worker.job.taken", p, &one)
	})
	if err == nil && found {
		j.move()
	} else if err == nil {
		err = capabilities.Errorf(capabilities.CodeNotFound, "no job is due")
	}
	return one, err
}

// freeIn queues the jobs anew whose worker is not heard of any more.
func (j *Jobs) freeIn(tx *store.Tx, p capabilities.PrincipalID, worker string, fresh bool, now time.Time) error {
	rows, err := tx.Query(`SELECT id, body FROM jobs WHERE principal = $1 AND state = 'running'`, string(p))
	if err != nil {
		return err
	}
	lost, err := j.scanAll(rows)
	if err != nil {
		return err
	}
	lost = slices.DeleteFunc(lost, func(one Job) bool { return one.Until.After(now) && !(fresh && one.Worker == worker) })
	for i := range lost {
		one := &lost[i]
		one.Claim, one.Until = "", time.Time{}
		switch {
		case one.Cancel:
			one.State, one.Ended = Cancelled, now.UTC()
		case one.Parent != "": // its calls have no request IDs, and it may have made some
			one.Code, one.Result = capabilities.CodeExecutionFailed, "its worker is gone"
			j.over(one, Failed, now)
		case one.Taken >= maxTaken:
			one.Code, one.Result = capabilities.CodeExecutionFailed, "its workers died of it, again and again"
			j.over(one, Failed, now)
		default:
			one.State = Queued
		}
		if err := j.saveIn(tx, one, false); err != nil {
			return err
		}
		if err := j.record(tx, "worker.job.lost", p, one); err != nil {
			return err
		}
	}
	return nil
}

// over ends a run. A job with a schedule is queued for its next one.
func (j *Jobs) over(one *Job, state string, now time.Time) {
	one.State, one.Ended, one.Claim, one.Until = state, now.UTC(), "", time.Time{}
	if one.Schedule == "" || state == Cancelled {
		return
	}
	if s, err := schedule(one.Schedule); err == nil {
		one.State, one.Due = Queued, s.Next(now.UTC())
		one.Run++
		one.Taken = 0
	}
}

// heldIn returns the job of a claim; CodeConflict for a claim that is not the job's any more.
func (j *Jobs) heldIn(tx *store.Tx, p capabilities.PrincipalID, id, claim string) (Job, error) {
	one, err := j.getIn(tx, id)
	return held(one, err, p, id, claim)
}

// Tell is the worker's word that it is at a job: how many calls it made, and where it is. The
// answer says whether it is to stop.
func (j *Jobs) Tell(ctx context.Context, p capabilities.PrincipalID, id, claim string, calls int, stage string) (one Job, err error) {
	if stage != "" {
		if err := capabilities.ValidateName("stage", stage, maxName); err != nil {
			return Job{}, err
		}
	}
	err = j.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if one, err = j.heldIn(tx, p, id, claim); err != nil {
			return err
		}
		one.Calls, one.Stage, one.Until = counted(calls), stage, j.opts.Now().Add(Lease).UTC()
		return j.saveIn(tx, &one, false)
	})
	if err == nil {
		j.attends(p, "") // it asks again when the job is done
		j.move()
	}
	return one, err
}

// counted bounds a number of calls that a worker says.
func counted(calls int) int { return min(max(calls, 0), 1<<20) }

// End is the worker's word on how a run ended, and on its calls: done, failed, or queued to give it
// back. Words that are too long lose their end.
func (j *Jobs) End(ctx context.Context, p capabilities.PrincipalID, id string, said api.JobWord) (one Job, err error) {
	state := said.State
	if state != Done && state != Failed && state != Queued {
		return Job{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a job ends as done or failed, or is queued again")
	}
	err = j.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if one, err = j.heldIn(tx, p, id, said.Claim); err != nil {
			return err
		}
		now := j.opts.Now()
		kind := "worker.job.ended"
		if state != Queued {
			one.Calls = counted(said.Calls)
		}
		switch {
		case one.Cancel:
			j.over(&one, Cancelled, now)
		case state == Queued && one.Parent != "": // another worker does not go on with it
			one.Result, one.Code = "its worker ended", capabilities.CodeExecutionFailed
			j.over(&one, Failed, now)
		case state == Queued:
			one.State, one.Claim, one.Until, kind = Queued, "", time.Time{}, "worker.job.lost"
		default:
			one.Result = strings.ToValidUTF8(capabilities.Clip(said.Result, maxResult), "")
			one.Code = capabilities.Code(capabilities.Clip(string(said.Code), maxName))
			j.over(&one, state, now)
		}
		if err := j.saveIn(tx, &one, false); err != nil {
			return err
		}
		ended := one
		ended.State = state
		if one.State == Cancelled {
			ended.State = Cancelled
		}
		if err := j.record(tx, kind, p, &ended); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM jobs WHERE principal = $1 AND state NOT IN ('queued','running') AND job <= (SELECT job FROM jobs
			WHERE principal = $1 AND state NOT IN ('queued','running') ORDER BY job DESC LIMIT 1 OFFSET $2)`, string(p), keptEach)
		return err
	})
	if err == nil {
		j.tell()
	}
	one.Claim = ""
	return one, err
}

// Cancel ends a job of a principal, "" for anybody's, and its schedule. A worker that waits for the
// job's end is told at once, another at its next word; by is who wants it. A job that ended is
// forgotten.
func (j *Jobs) Cancel(ctx context.Context, p, by capabilities.PrincipalID, id string) (one Job, err error) {
	err = j.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if one, err = j.getIn(tx, id); errors.Is(err, sql.ErrNoRows) || err == nil && p != "" && one.Principal != p {
			return unknown(id)
		}
		if err != nil {
			return err
		}
		switch one.State {
		case Queued:
			one.Cancel = true
			j.over(&one, Cancelled, j.opts.Now())
		case Running:
			one.Cancel = true
		default:
			_, err := tx.Exec(`DELETE FROM jobs WHERE id = $1`, id)
			return err
		}
		if err := j.saveIn(tx, &one, false); err != nil {
			return err
		}
		return j.record(tx, "worker.job.cancelled", by, &one)
	})
	if err == nil {
		j.tell()
	}
	one.Claim = ""
	return one, err
}
