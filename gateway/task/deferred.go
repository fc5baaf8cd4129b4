package task

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

var _ dispatch.Deferred = (*Tasks)(nil)

// sealedArgs is what is kept of a call beside its row.
type sealedArgs struct {
	Args      json.RawMessage     `json:"args"` // as the caller sent them
	Canonical json.RawMessage     `json:"canonical"`
	Target    capabilities.NodeID `json:"target,omitempty"`
	Trace     string              `json:"trace,omitempty"` // where it stands in one: a traceparent
}

// Keep implements dispatch.Deferred.
func (t *Tasks) Keep(ctx context.Context, a dispatch.Asked, approval string, life time.Duration) *capabilities.Error {
	now := time.Now()
	one := Task{
		ID: newID(), State: Waiting, Principal: a.Principal, Role: a.Role, Lane: a.Lane, Tool: a.Tool,
		Manifest: a.Manifest, RequestID: a.RequestID, Surface: a.Surface, Approval: approval, Created: now, Expires: now.Add(life),
		Handle: a.Handle,
	}
	if one.Handle { // the task outlives its question, so that its caller hears how that ended
		one.Expires = one.Expires.Add(resultLife)
	}
	args, err := json.Marshal(sealedArgs{Args: a.Args, Canonical: a.Canonical, Target: a.Target, Trace: a.Trace.String()})
	if err != nil {
		return capabilities.AsError(err)
	}
	err = t.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		if err := t.opts.Outcomes.PutIn(tx, capabilities.CallID(one.ID), argsKind, args, time.Until(one.Expires)); err != nil {
			return err
		}
		return t.keepIn(tx, &one)
	})
	if err != nil {
		return capabilities.AsError(err)
	}
	t.notice.tell()
	return capabilities.Errorf(capabilities.CodeApprovalPending,
		"A person has to approve this call (%s). It is kept until %s and carried out when they do.", approval,
		one.Expires.UTC().Format(time.RFC3339)).
		WithHint("Repeat the identical call later to get its result.").
		WithDetails(capabilities.Pending{Approval: approval, Task: one.ID, Expires: one.Expires.UTC()})
}

// newID returns the ID of a task.
func newID() string {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return "t-" + hex.EncodeToString(random[:])
}

// keepIn writes a new task down. One whose caller was told its result makes room, the oldest first.
func (t *Tasks) keepIn(tx *store.Tx, one *Task) error {
	var all, mine int
	if err := tx.QueryRow(`SELECT COUNT(*), COALESCE(SUM(principal = $1), 0) FROM tasks`, string(one.Principal)).
		Scan(&all, &mine); err != nil {
		return err
	}
	if all >= maxTasks || mine >= maxTasksEach {
		n, err := tx.Exec(`DELETE FROM tasks WHERE task_id = (SELECT task_id FROM tasks WHERE principal = $1 AND state = $2
			ORDER BY expires_ms LIMIT 1)`, string(one.Principal), string(Told))
		if err != nil {
			return err
		}
		if n == 0 {
			return capabilities.Errorf(capabilities.CodeOverloaded, "too many calls of this principal are deferred")
		}
	}
	one.Member = t.opts.Store.Member()
	if err := t.record(tx, one, "gateway.task.deferred"); err != nil {
		return err
	}
	body, err := json.Marshal(one)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO tasks (task_id, principal, approval, body, state, expires_ms) VALUES ($1, $2, $3, $4, $5, $6)`,
		one.ID, string(one.Principal), one.Approval, string(body), string(one.State), one.Expires.UnixMilli())
	return err
}

// Earlier implements dispatch.Deferred.
func (t *Tasks) Earlier(ctx context.Context, a dispatch.Asked) (*capabilities.Result, *capabilities.Error) {
	wait := max(0, t.opts.Patience)
	if a.Handle { // its caller asks after it
		wait = 0
	}
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for {
		changed := t.notice.wait()
		one := t.same(ctx, a)
		if one == nil {
			return nil, nil
		}
		if one.State == Ended {
			return t.collect(ctx, one, a.Principal)
		}
		select {
		case <-changed:
		case <-patience.C:
			return nil, capabilities.Errorf(capabilities.CodeApprovalPending, "A person has to approve this call (%s); it is kept until %s.",
				one.Approval, one.Expires.UTC().Format(time.RFC3339)).
				WithHint("Repeat the identical call later to get its result.").
				WithDetails(capabilities.Pending{Approval: one.Approval, Task: one.ID, State: string(one.State), Expires: one.Expires.UTC()})
		case <-ctx.Done():
			return nil, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
	}
}

// collect returns the result of a task that ended and forgets the task.
func (t *Tasks) collect(ctx context.Context, one *Task, by capabilities.PrincipalID) (*capabilities.Result, *capabilities.Error) {
	data, err := t.opts.Outcomes.Get(ctx, capabilities.CallID(one.ID), resultKind)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	r, err := opencalls.Unpack(data)
	if err == nil {
		err = t.forget(ctx, one, by, "gateway.task.taken")
	}
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	return r, nil
}

// same finds the task of the identical call.
func (t *Tasks) same(ctx context.Context, a dispatch.Asked) *Task {
	all, err := t.Tasks(ctx, a.Principal)
	if err != nil {
		return nil
	}
	for i := range all {
		one := &all[i]
		if one.Tool != a.Tool || one.Lane != a.Lane || one.Role != a.Role || one.State == Told {
			continue
		}
		kept, err := t.args(ctx, one)
		if err == nil && kept.Target == a.Target && bytes.Equal(kept.Canonical, a.Canonical) {
			return one
		}
	}
	return nil
}

func (t *Tasks) args(ctx context.Context, one *Task) (kept sealedArgs, err error) {
	data, err := t.opts.Outcomes.Get(ctx, capabilities.CallID(one.ID), argsKind)
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	return kept, err
}

// StartIn implements dispatch.Deferred: from this commit on a crash leaves the call to be
// settled, and before it nothing ran.
func (t *Tasks) StartIn(tx *store.Tx, id string, call capabilities.CallID) error {
	waits := false
	err := t.change(tx, id, func(one *Task) (ledger.Kind, error) {
		if waits = one.State == Waiting; !waits {
			return "", nil
		}
		one.State, one.Call = Running, call
		return "gateway.task.resumed", nil
	})
	if err == nil && !waits {
		err = capabilities.Errorf(capabilities.CodeNotFound, "this call was kept, and is kept no longer: it was dropped, or its time is over")
	}
	return err
}
