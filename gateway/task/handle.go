package task

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/store"
)

// A task whose caller has a handle: a surface returned its ID in place of a result, and the
// caller asks after it by that.

// resultLife is how long the result of such a task is there at least, once it ended.
const resultLife = 15 * time.Minute

// end notes how a task's call ended.
func (one *Task) end(call capabilities.CallID, code capabilities.Code) {
	one.State, one.Call, one.Code = Ended, call, code
	if least := time.Now().Add(resultLife); one.Handle && one.Expires.Before(least) {
		one.Expires = least
	}
}

// Cancelled reports whether a task is over because somebody cancelled it.
func (one *Task) Cancelled() bool { return one.State.Over() && one.Code == capabilities.CodeCancelled }

// Underway is a call that runs and becomes a task.
type Underway struct {
	dispatch.Caller
	Tool      capabilities.ToolID
	RequestID capabilities.RequestID
	Surface   string
	Call      capabilities.CallID // committed, so that a crash leaves it to be settled
	Life      time.Duration       // of the task, from now on
	// Cancel ends the call; required.
	Cancel context.CancelCauseFunc
}

// Adopt makes a task of a call that runs. The caller tells End how the call ended.
func (t *Tasks) Adopt(ctx context.Context, u Underway) (Task, error) {
	now := time.Now()
	one := Task{
		ID: newID(), State: Running, Principal: u.Principal, Role: u.Role, Lane: u.Lane, Tool: u.Tool, RequestID: u.RequestID,
		Surface: u.Surface, Call: u.Call, Created: now, Expires: now.Add(u.Life), Handle: true,
	}
	t.running.add(one.ID, u.Cancel) // before anybody knows the ID
	err := t.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error { return t.keepIn(tx, &one) })
	if err != nil {
		t.running.remove(one.ID)
		return Task{}, capabilities.AsError(err)
	}
	return one, nil
}

// End notes how an adopted call ended. A call that the end of the gateway cut off is left to the
// next process, which asks its node.
func (t *Tasks) End(ctx context.Context, id string, r *capabilities.Result, ending bool) {
	defer t.running.remove(id)
	if ending && (neverBegan(r.Code) || r.Code == capabilities.CodeUnknownOutcome || r.Code == capabilities.CodeNodeDisconnected) {
		return
	}
	t.recordEnd(context.WithoutCancel(ctx), id, r, false)
}

// Task returns a task of a principal's. CodeNotFound: it has none of that ID, or its time is over.
func (t *Tasks) Task(ctx context.Context, principal capabilities.PrincipalID, id string) (Task, error) {
	var body string
	var one Task
	err := t.opts.Store.Read().QueryRowContext(ctx, `SELECT body FROM tasks WHERE task_id = $1 AND principal = $2 AND expires_ms > $3`,
		id, string(principal), time.Now().UnixMilli()).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return one, capabilities.Errorf(capabilities.CodeNotFound, "there is no such task")
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &one)
	}
	if err != nil {
		return one, capabilities.Wrap(capabilities.CodeInternal, err, "a task cannot be read")
	}
	return one, nil
}

// Await is Task, and waits until the task's state is another than now, or patience is over. One
// that is over is returned at once.
func (t *Tasks) Await(ctx context.Context, principal capabilities.PrincipalID, id string, patience time.Duration) (Task, error) {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	var first State
	for {
		changed := t.notice.wait() // before the row, so that nothing is missed
		one, err := t.Task(ctx, principal, id)
		if err != nil || one.State.Over() || first != "" && one.State != first {
			return one, err
		}
		first = one.State
		select {
		case <-changed:
		case <-wait.C:
			return one, nil
		case <-ctx.Done():
			return one, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
	}
}

// Result returns the result of a task that is over, as often as it is asked for.
func (t *Tasks) Result(ctx context.Context, one *Task) (*capabilities.Result, error) {
	data, err := t.opts.Outcomes.Get(ctx, capabilities.CallID(one.ID), resultKind)
	if err != nil {
		return nil, err
	}
	r, err := opencalls.Unpack(data)
	if err != nil || one.State == Told {
		return r, err
	}
	err = t.opts.Store.WriteTerminal(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return t.change(tx, one.ID, func(now *Task) (ledger.Kind, error) {
			if now.State != Ended {
				return "", nil
			}
			now.State = Told
			_, err := t.opts.Ledger.AppendIn(tx, ledger.Draft{
				Kind: "gateway.task.taken", Tool: now.Tool, Principal: now.Principal, Lane: now.Lane,
				Body: packet.TaskForgotten{ID: now.ID, Of: now.Principal, Code: now.Code},
			})
			return "", err
		})
	})
	if err != nil { // it is told all the same: the identical call would only take it once more
		t.opts.Log.Warn("task.told", "task", one.ID, "err", err)
	}
	return r, nil
}

// Cancel ends a task of a principal's, at its caller's wish: one that waits runs no more, and the
// call of one that runs is cancelled. One that is over stays what it is.
func (t *Tasks) Cancel(ctx context.Context, principal capabilities.PrincipalID, id string) error {
	one, err := t.Task(ctx, principal, id)
	if err != nil || one.State.Over() {
		return err
	}
	reason := capabilities.Errorf(capabilities.CodeCancelled, "Its caller cancelled the task.")
	r := dispatch.Failed(one.Tool, "", reason)
	data, err := opencalls.Pack(&r)
	if err != nil {
		return capabilities.AsError(err)
	}
	ended := false
	err = t.opts.Store.WriteTerminal(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return t.change(tx, id, func(now *Task) (ledger.Kind, error) {
			if ended = now.State == Waiting; !ended {
				return "", nil
			}
			now.end("", capabilities.CodeCancelled)
			one = *now
			return "gateway.task.ended", t.opts.Outcomes.PutIn(tx, capabilities.CallID(id), resultKind, data,
				time.Until(now.Expires)+opencalls.ResultMemory)
		})
	})
	if err != nil {
		return capabilities.AsError(err)
	}
	t.running.cancel(id, reason)
	if ended || !t.mine(&one) {
		err = t.withdraw(ctx, &one)
	}
	t.notice.tell()
	return err
}

// withdraw closes the question that a task waited for, and at another gateway also ends its call.
func (t *Tasks) withdraw(ctx context.Context, one *Task) error {
	if !t.mine(one) {
		return t.opts.Cancel(context.WithoutCancel(ctx), one.Member, one.ID, one.Approval)
	}
	if t.opts.Consent != nil {
		t.opts.Consent.Withdraw(one.Approval)
	}
	return nil
}

// running is how the calls of tasks are ended, by the task's ID.
type running struct {
	mu   sync.Mutex
	ends map[string]context.CancelCauseFunc
}

// add notes how a task's call is ended; over takes that back, and ends it.
func (r *running) add(id string, cancel context.CancelCauseFunc) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends == nil {
		r.ends = map[string]context.CancelCauseFunc{}
	}
	r.ends[id] = cancel
	return func() { r.remove(id); cancel(nil) }
}

func (r *running) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ends, id)
}

func (r *running) cancel(id string, cause error) {
	r.mu.Lock()
	end := r.ends[id]
	r.mu.Unlock()
	if end != nil {
		end(cause)
	}
}
