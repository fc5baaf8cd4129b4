package task

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"sort"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/opencalls"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the table of kept calls.
var Migrations = []store.Migration{{Room: "task", Version: 1, SQL: `
CREATE TABLE tasks (
	task_id    TEXT PRIMARY KEY,
	principal  TEXT NOT NULL,
	approval   TEXT NOT NULL,
	body       TEXT NOT NULL,
	state      TEXT NOT NULL,
	expires_ms BIGINT NOT NULL
);
`}}

// Task is one kept call.
type Task struct {
	ID        string                   `json:"task"`
	State     State                    `json:"state"`
	Principal capabilities.PrincipalID `json:"principal"`
	Role      string                   `json:"role"`
	Lane      capabilities.LaneID      `json:"lane"`
	Tool      capabilities.ToolID      `json:"tool"`
	Manifest  string                   `json:"manifest_hash"` // of the tool as it was when the call was made
	RequestID capabilities.RequestID   `json:"request_id,omitempty"`
	Surface   string                   `json:"surface,omitempty"`
	Approval  string                   `json:"approval"` // the question that it waits for now
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Code      capabilities.Code        `json:"code,omitempty"` // of a call that did not succeed
	Created   time.Time                `json:"created_at"`
	Expires   time.Time                `json:"expires_at"`
	// Handle says that its caller has its ID and asks after it by that. Changed is when its state
	// changed last; zero: never.
	Handle bool `json:"handle,omitempty"`
	// Member is which of several gateways carries it out; empty: there was one.
	Member  string    `json:"member,omitempty"`
	Changed time.Time `json:"changed_at,omitzero"`
}

// State is how far a task is.
type State string

// The states. A task waits until its call is committed: while it is asked about anew, too,
// and after a yes until then. One that ended keeps its result until somebody takes it or it
// expires.
//
// Told is Ended for a caller with a handle, who was told the result: the identical call is a new
// one then, and the result stays for who asks again, until it expires or its room is needed.
const (
	Waiting State = "waiting"
	Running State = "running"
	Ended   State = "ended"
	Told    State = "told"
)

// Over reports whether nothing more becomes of a task in that state.
func (s State) Over() bool { return s == Ended || s == Told }

// Bounds of kept calls, and the kinds under which the outcomes keep what belongs to one.
const (
	maxTasks     = 1024
	maxTasksEach = 32
	argsKind     = "task-args"
	resultKind   = "task-result"
	sweepEvery   = 15 * time.Second
)

// Calls is the pipeline; gateway/dispatch implements it.
type Calls interface {
	Call(ctx context.Context, r dispatch.Request) capabilities.Result
	// TakeRecovered returns, once, the calls that an earlier process left open, each with
	// what waits for its end.
	TakeRecovered() map[capabilities.CallID]dispatch.Await
}

// Consent is the questions that tasks wait for; gateway/consent implements it.
type Consent interface {
	// Approval returns a question that waits or was answered lately.
	Approval(id string) (consent.Approval, error)
	// Withdraw closes a question whose call nobody wants any more.
	Withdraw(approval string)
	// Changed is closed at the next question or answer.
	Changed() <-chan struct{}
}

// Options of New; required unless a default is named.
type Options struct {
	Store    *store.Store
	Ledger   *ledger.Ledger
	Outcomes *outcome.Store
	Registry *registry.Registry
	Consent  Consent                // default: nobody is asked, so nothing is kept
	Nodes    func() <-chan struct{} // closed when the roster changes
	// Cancel ends what another gateway of the site carries out of a task, and closes its question.
	// Default: there is none.
	Cancel func(ctx context.Context, member, task, approval string) error
	// Known says whether a principal still has a token of that role. Default: yes.
	Known func(capabilities.PrincipalID, string) bool
	// Patience is how long the identical call waits for one that was kept; default: not at
	// all.
	Patience time.Duration
	Log      *slog.Logger // default: discards
}

// Tasks are the kept calls of a gateway. All methods are safe for concurrent use.
type Tasks struct {
	opts    Options
	notice  notice
	running running
	taken   taken
}

// New makes Tasks; it starts nothing.
func New(o Options) *Tasks {
	if o.Known == nil {
		o.Known = func(capabilities.PrincipalID, string) bool { return true }
	}
	if o.Cancel == nil {
		o.Cancel = func(context.Context, string, string, string) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Tasks{opts: o}
}

// Tasks returns the kept calls of a principal, or everybody's for "", oldest first.
func (t *Tasks) Tasks(ctx context.Context, principal capabilities.PrincipalID) ([]Task, error) {
	rows, err := t.opts.Store.Read().QueryContext(ctx, `SELECT body FROM tasks WHERE ($1 = '' OR principal = $2) AND expires_ms > $3`,
		string(principal), string(principal), time.Now().UnixMilli())
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all := []Task{}
	for rows.Next() {
		var body string
		var one Task
		if err := rows.Scan(&body); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		if err := json.Unmarshal([]byte(body), &one); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "a task cannot be read")
		}
		all = append(all, one)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Created.Before(all[j].Created) })
	return all, rows.Err()
}

// DropTask forgets a kept call of a principal's, or anybody's for "". One that runs goes
// on; its result is lost.
func (t *Tasks) DropTask(ctx context.Context, principal capabilities.PrincipalID, id string, by capabilities.PrincipalID) error {
	all, err := t.Tasks(ctx, principal)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].ID != id {
			continue
		}
		if err := t.forget(ctx, &all[i], by, "gateway.task.dropped"); err != nil {
			return err
		}
		if all[i].State == Waiting {
			return t.withdraw(ctx, &all[i])
		}
		return nil
	}
	return capabilities.Errorf(capabilities.CodeNotFound, "there is no such task")
}

// forget forgets a task with all that was kept for it.
func (t *Tasks) forget(ctx context.Context, one *Task, by capabilities.PrincipalID, kind ledger.Kind) error {
	defer t.notice.tell()
	return t.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := t.opts.Ledger.AppendIn(tx, ledger.Draft{
			Kind: kind, Tool: one.Tool, Principal: by, Lane: one.Lane, Body: packet.TaskForgotten{ID: one.ID, Of: one.Principal, Code: one.Code},
		}); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM tasks WHERE task_id = $1`, one.ID)
		return err
	})
}

// record appends the packet of what became of a task.
func (t *Tasks) record(tx *store.Tx, one *Task, kind ledger.Kind) error {
	body := packet.Task{
		ID: one.ID, State: string(one.State), Approval: one.Approval, ExpiresAt: one.Expires, Code: one.Code, Call: one.Call,
	}
	_, err := t.opts.Ledger.AppendIn(tx, ledger.Draft{Kind: kind, Tool: one.Tool, Principal: one.Principal, Lane: one.Lane, Body: body})
	return err
}

// change changes a task as it stands in the store, where there is one whose time is not
// over: what was dropped does not come back. A packet is written if alter names a kind.
func (t *Tasks) change(tx *store.Tx, id string, alter func(*Task) (ledger.Kind, error)) error {
	var body string
	err := tx.QueryRow(`SELECT body FROM tasks WHERE task_id = $1 AND expires_ms > $2`, id, time.Now().UnixMilli()).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	var one Task
	if err == nil {
		err = json.Unmarshal([]byte(body), &one)
	}
	if err != nil {
		return err
	}
	was := one.State
	kind, err := alter(&one)
	if one.State != was {
		one.Changed = time.Now()
	}
	if err == nil && kind != "" {
		err = t.record(tx, &one, kind)
	}
	if err != nil {
		return err
	}
	changed, err := json.Marshal(&one)
	if err == nil {
		_, err = tx.Exec(`UPDATE tasks SET approval = $1, body = $2, state = $3, expires_ms = $4 WHERE task_id = $5`, one.Approval, string(changed),
			string(one.State), one.Expires.UnixMilli(), id)
	}
	return err
}

// recordEnd keeps the result for the identical call. A task that did not run waits on if there is a
// question that it waits for, or if waits says so. A call that was dropped meanwhile is left at
// that.
func (t *Tasks) recordEnd(ctx context.Context, id string, r *capabilities.Result, waits bool) {
	approval := r.Pending().Approval
	waits = waits || r.Code == capabilities.CodeApprovalPending && approval != ""
	data, err := opencalls.Pack(r)
	if err == nil {
		err = t.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
			return t.change(tx, id, func(one *Task) (ledger.Kind, error) {
				if one.State.Over() { // it was cancelled meanwhile
					return "", nil
				}
				if one.State == Waiting && waits {
					if approval != "" {
						one.Approval = approval
					}
					return "", nil
				}
				one.end(r.Call, r.Code)
				return "gateway.task.ended", t.opts.Outcomes.PutIn(tx, capabilities.CallID(id), resultKind, data,
					time.Until(one.Expires)+opencalls.ResultMemory)
			})
		})
	}
	if err != nil {
		t.opts.Log.Error("task.unrecorded", "task", id, "err", err)
	}
	t.notice.tell()
}
