package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/store"
)

// TaskMigrations are the table of deferred calls. What was asked lies sealed with
// the outcomes; a row knows nothing of it.
var TaskMigrations = []store.Migration{{Room: "task", Version: 1, SQL: `
CREATE TABLE tasks (
	task_id    TEXT PRIMARY KEY,
	principal  TEXT NOT NULL,
	approval   TEXT NOT NULL,
	body       TEXT NOT NULL,
	state      TEXT NOT NULL,
	expires_ms BIGINT NOT NULL
);
`}}

// Task is a call that waits for a person although nobody holds the line
// (DESIGN section 14, "headless"). When it is allowed it goes through every hop
// anew: schema, manifest, policy, node, consent.
type Task struct {
	ID        string                   `json:"task"`
	State     TaskState                `json:"state"`
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
}

// TaskState is how far a task is.
type TaskState string

// The states. A task waits until its call is committed: while it is asked about anew,
// too, and after a yes until then. One that ended keeps its result until somebody takes
// it or it expires.
const (
	TaskWaiting TaskState = "waiting"
	TaskRunning TaskState = "running"
	TaskEnded   TaskState = "ended"
)

const (
	maxTasks     = 1024
	maxTasksEach = 32
	taskArgs     = "task-args"
	taskResult   = "task-result"
	taskSweep    = 15 * time.Second
)

// sealedArgs is what is kept of a deferred call beside its row.
type sealedArgs struct {
	Args      json.RawMessage     `json:"args"` // as the caller sent them
	Canonical json.RawMessage     `json:"canonical"`
	Target    capabilities.NodeID `json:"target,omitempty"`
}

// tasks says when a task has changed, and which are seen to now.
type tasks struct {
	mu      sync.Mutex
	changed chan struct{}
	busy    map[string]bool
}

func (t *tasks) wait() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

func (t *tasks) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// begin notes that a task is seen to: asked about anew or carried out. end takes that
// back and tells.
func (t *tasks) begin(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy == nil {
		t.busy = map[string]bool{}
	}
	t.busy[id] = true
}

func (t *tasks) end(id string) {
	t.mu.Lock()
	delete(t.busy, id)
	t.mu.Unlock()
	t.tell()
}

// seenTo gives the tasks that somebody sees to now.
func (t *tasks) seenTo() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.busy)
}

// defers reports whether policy keeps this call while nobody answers.
func (c *call) defers() bool {
	return c.req.task == "" && !c.isStep() && c.verdict.Effect == policy.Ask &&
		c.engine.Advice(c.verdict.Determining, c.engine.Profile(c.d.Tool).Asks).Defer > 0
}

// keepTask defers a call that nobody answered in time. The error it gives says so
// to the caller; keeping nothing is no reason to say anything else than before.
func (d *Dispatcher) keepTask(ctx context.Context, c *call, life time.Duration, pending *capabilities.Error) *capabilities.Error {
	details, _ := pending.Details.(map[string]any)
	approval, _ := details["approval"].(string)
	if approval == "" || !c.defers() {
		return pending
	}
	var random [8]byte
	rand.Read(random[:]) // never fails
	now := time.Now()
	t := Task{
		ID: "t-" + hex.EncodeToString(random[:]), State: TaskWaiting, Principal: c.req.Principal, Role: c.req.Role, Lane: c.req.Lane, Tool: c.req.Tool,
		Manifest: c.engine.Profile(c.req.Tool).ManifestHash, RequestID: c.req.RequestID, Surface: c.req.Surface, Approval: approval,
		Created: now, Expires: now.Add(life),
	}
	args, err := json.Marshal(sealedArgs{Args: c.req.Args, Canonical: c.args.Canonical, Target: c.args.NodeID})
	if err != nil {
		return capabilities.AsError(err)
	}
	err = d.opts.Store.Write(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		var all, mine int
		if err := tx.QueryRow(`SELECT COUNT(*), COALESCE(SUM(principal = $1), 0) FROM tasks`, string(t.Principal)).Scan(&all, &mine); err != nil {
			return err
		}
		if all >= maxTasks || mine >= maxTasksEach {
			return capabilities.Errorf(capabilities.CodeOverloaded, "too many calls of this principal are deferred")
		}
		if err := d.opts.Outcomes.PutIn(tx, capabilities.CallID(t.ID), taskArgs, args, life); err != nil {
			return err
		}
		if err := d.recordTask(tx, &t, "gateway.task.deferred"); err != nil {
			return err
		}
		body, err := json.Marshal(&t)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO tasks (task_id, principal, approval, body, state, expires_ms) VALUES ($1, $2, $3, $4, $5, $6)`,
			t.ID, string(t.Principal), t.Approval, string(body), string(t.State), t.Expires.UnixMilli())
		return err
	})
	if err != nil {
		return capabilities.AsError(err)
	}
	d.tasks.tell()
	return capabilities.Errorf(capabilities.CodeApprovalPending, "A person has to approve this call (%s). It is kept until %s and carried out when they do.", approval, t.Expires.UTC().Format(time.RFC3339)).
		WithHint("Repeat the identical call later to get its result.").
		WithDetails(map[string]any{"approval": approval, "task": t.ID, "expires_at": t.Expires.UTC()})
}

// recordTask appends the packet of what became of a task.
func (d *Dispatcher) recordTask(tx *store.Tx, t *Task, kind ledger.Kind) error {
	body := map[string]any{"task": t.ID, "state": t.State, "approval": t.Approval, "expires_at": t.Expires, "code": t.Code}
	if t.Call != "" {
		body["call"] = t.Call
	}
	_, err := d.opts.Ledger.AppendIn(tx, ledger.Draft{Kind: kind, Tool: t.Tool, Principal: t.Principal, Lane: t.Lane, Body: body})
	return err
}

// changeTask changes a task as it stands in the store, where there is one whose time
// is not over: what was dropped does not come back. A packet is written if change
// names a kind.
func (d *Dispatcher) changeTask(tx *store.Tx, id string, change func(*Task) (ledger.Kind, error)) (found bool, err error) {
	var body string
	err = tx.QueryRow(`SELECT body FROM tasks WHERE task_id = $1 AND expires_ms > $2`, id, time.Now().UnixMilli()).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	var t Task
	if err == nil {
		err = json.Unmarshal([]byte(body), &t)
	}
	if err != nil {
		return false, err
	}
	kind, err := change(&t)
	if err == nil && kind != "" {
		err = d.recordTask(tx, &t, kind)
	}
	if err != nil {
		return true, err
	}
	changed, err := json.Marshal(&t)
	if err == nil {
		_, err = tx.Exec(`UPDATE tasks SET approval = $1, body = $2, state = $3 WHERE task_id = $4`, t.Approval, string(changed), string(t.State), id)
	}
	return true, err
}

// startTaskIn makes a task run, in the commit of its call: from there on a crash
// leaves that call to be settled, and before it nothing ran. CodeNotFound for one that
// was dropped, whose time is over, or that ran already.
func (d *Dispatcher) startTaskIn(tx *store.Tx, id string, call capabilities.CallID) error {
	waits := false
	_, err := d.changeTask(tx, id, func(t *Task) (ledger.Kind, error) {
		if waits = t.State == TaskWaiting; !waits {
			return "", nil
		}
		t.State, t.Call = TaskRunning, call
		return "gateway.task.resumed", nil
	})
	if err == nil && !waits {
		err = capabilities.Errorf(capabilities.CodeNotFound, "this call was kept, and is kept no longer: it was dropped, or its time is over")
	}
	return err
}

// Tasks gives the deferred calls of a principal, or everybody's for "", oldest
// first.
func (d *Dispatcher) Tasks(ctx context.Context, principal capabilities.PrincipalID) ([]Task, error) {
	rows, err := d.opts.Store.Read().QueryContext(ctx, `SELECT body FROM tasks WHERE ($1 = '' OR principal = $2) AND expires_ms > $3`,
		string(principal), string(principal), time.Now().UnixMilli())
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	all := []Task{}
	for rows.Next() {
		var body string
		var t Task
		if err := rows.Scan(&body); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "")
		}
		if err := json.Unmarshal([]byte(body), &t); err != nil {
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "a task cannot be read")
		}
		all = append(all, t)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Created.Before(all[j].Created) })
	return all, rows.Err()
}

// DropTask forgets a deferred call of a principal's, or anybody's for "". One that
// runs goes on; its result is lost.
func (d *Dispatcher) DropTask(ctx context.Context, principal capabilities.PrincipalID, id string, by capabilities.PrincipalID) error {
	all, err := d.Tasks(ctx, principal)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(t Task) bool { return t.ID == id })
	if at < 0 {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no such task")
	}
	if err := d.endTask(ctx, &all[at], by, "gateway.task.dropped"); err != nil {
		return err
	}
	if all[at].State == TaskWaiting && d.opts.Consent != nil {
		d.opts.Consent.Withdraw(all[at].Approval)
	}
	return nil
}

// endTask forgets a task with all that was kept for it.
func (d *Dispatcher) endTask(ctx context.Context, t *Task, by capabilities.PrincipalID, kind ledger.Kind) error {
	defer d.tasks.tell()
	return d.opts.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := d.opts.Ledger.AppendIn(tx, ledger.Draft{
			Kind: kind, Tool: t.Tool, Principal: by, Lane: t.Lane, Body: map[string]any{"task": t.ID, "of": t.Principal, "code": t.Code},
		}); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM tasks WHERE task_id = $1`, t.ID)
		return err
	})
}

// joinTask gives the outcome of the identical call that was deferred: its result,
// which is taken with that, or that it still waits. nil: there is none.
func (d *Dispatcher) joinTask(ctx context.Context, c *call) (*capabilities.Result, *capabilities.Error) {
	if !c.defers() {
		return nil, nil
	}
	patience := time.NewTimer(max(0, d.opts.Patience))
	defer patience.Stop()
	for {
		changed := d.tasks.wait()
		t := d.sameTask(ctx, c)
		if t == nil {
			return nil, nil
		}
		if t.State == TaskEnded {
			data, err := d.opts.Outcomes.Get(ctx, capabilities.CallID(t.ID), taskResult)
			if err != nil {
				return nil, capabilities.AsError(err)
			}
			r, err := unpackResult(data)
			if err == nil {
				err = d.endTask(ctx, t, c.req.Principal, "gateway.task.taken")
			}
			if err != nil {
				return nil, capabilities.AsError(err)
			}
			return r, nil
		}
		select {
		case <-changed:
		case <-patience.C:
			return nil, capabilities.Errorf(capabilities.CodeApprovalPending, "A person has to approve this call (%s); it is kept until %s.", t.Approval, t.Expires.UTC().Format(time.RFC3339)).
				WithHint("Repeat the identical call later to get its result.").
				WithDetails(map[string]any{"approval": t.Approval, "task": t.ID, "state": t.State, "expires_at": t.Expires.UTC()})
		case <-ctx.Done():
			return nil, capabilities.Wrap(capabilities.CodeCancelled, ctx.Err(), "")
		}
	}
}

// sameTask finds the task of the identical call.
func (d *Dispatcher) sameTask(ctx context.Context, c *call) *Task {
	all, err := d.Tasks(ctx, c.req.Principal)
	if err != nil {
		return nil
	}
	for i := range all {
		t := &all[i]
		if t.Tool != c.req.Tool || t.Lane != c.req.Lane || t.Role != c.req.Role {
			continue
		}
		kept, err := d.taskArgs(ctx, t)
		if err == nil && kept.Target == c.args.NodeID && bytes.Equal(kept.Canonical, c.args.Canonical) {
			return t
		}
	}
	return nil
}

func (d *Dispatcher) taskArgs(ctx context.Context, t *Task) (kept sealedArgs, err error) {
	data, err := d.opts.Outcomes.Get(ctx, capabilities.CallID(t.ID), taskArgs)
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	return kept, err
}

// runTasks carries deferred calls out as people answer, until ctx ends, and then
// waits for those under way.
func (d *Dispatcher) runTasks(ctx context.Context) {
	if d.opts.Consent == nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	d.recoverTasks(ctx, &running)
	asks := map[string]*again{}
	tick := time.NewTicker(taskSweep)
	defer tick.Stop()
	for {
		changed, answered, roster := d.tasks.wait(), d.opts.Consent.Changed(), d.opts.Nodes.Changed()
		busy := d.tasks.seenTo() // before the rows: what is free here is in them as it ended
		all, err := d.Tasks(ctx, "")
		if err != nil && ctx.Err() == nil {
			d.opts.Log.Warn("dispatch.tasks", "err", err)
		}
		for i := range all {
			if all[i].State == TaskWaiting && !busy[all[i].ID] {
				d.look(ctx, &all[i], asks, &running)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-answered:
		case <-roster:
		case now := <-tick.C:
			d.frames.drop(now)
			if err := d.opts.Store.Write(ctx, func(tx *store.Tx) error {
				_, err := tx.Exec(`DELETE FROM tasks WHERE expires_ms <= $1`, now.UnixMilli())
				return err
			}); err != nil && ctx.Err() == nil {
				d.opts.Log.Warn("dispatch.tasks", "err", err)
			}
		}
	}
}

// recoverTasks settles what an earlier process was carrying out: nobody runs it a
// second time.
func (d *Dispatcher) recoverTasks(ctx context.Context, running *sync.WaitGroup) {
	recovered := d.recovered
	d.recovered = nil
	all, err := d.Tasks(ctx, "")
	if err != nil {
		return
	}
	for i := range all {
		t := &all[i]
		if t.State != TaskRunning {
			continue
		}
		running.Go(func() {
			if r := d.cameOf(ctx, t, recovered[t.Call]); r != nil {
				d.concludeTask(context.WithoutCancel(ctx), t.ID, r, false)
			}
		})
	}
}

// cameOf gives what became of the call of a task of an earlier process: what its node
// tells (f, while that is not settled), or the result that was kept. nil: ctx ended.
func (d *Dispatcher) cameOf(ctx context.Context, t *Task, f *flight) *capabilities.Result {
	if f != nil {
		if r, ok := f.wait(ctx, f.join(nil)); ok {
			return &r
		}
		return nil
	}
	r, err := d.keptResult(ctx, t.Call)
	if err == nil {
		return r
	}
	if ctx.Err() != nil {
		return nil
	}
	e := capabilities.AsError(err)
	if t.Call == "" { // by a version that did not note it
		e = &capabilities.Error{Code: capabilities.CodeUnknownOutcome}
	}
	failed := (&call{req: Request{Tool: t.Tool}, id: t.Call, began: time.Now()}).failure(e)
	return &failed
}

// again is how a task fares whose question an earlier process has forgotten. Its
// node may not be back yet, so asking anew is tried when the roster changes; and now
// and then without that, because too many questions may have been in the way.
type again struct {
	roster <-chan struct{}
	tries  int
	next   time.Time // not before, though the roster changes
	late   time.Time // then, though it does not
}

// The first tries follow the roster closely, as after a start; later ones are rare,
// because each is a call in the ledger.
const (
	quickTries = 8
	slowTry    = time.Minute
)

// due reports whether it is time to ask anew, and notes that it is done.
func (a *again) due(roster <-chan struct{}, now time.Time) bool {
	if now.Before(a.next) || a.roster == roster && now.Before(a.late) {
		return false
	}
	a.roster, a.late = roster, now.Add(slowTry)
	if a.tries++; a.tries > quickTries {
		a.next = now.Add(slowTry)
	}
	return true
}

// look finds out whether a waiting task can go on.
func (d *Dispatcher) look(ctx context.Context, t *Task, asks map[string]*again, running *sync.WaitGroup) {
	a, err := d.opts.Consent.Approval(t.Approval)
	var refusal *capabilities.Error
	anew := false
	switch {
	case err != nil: // forgotten with an earlier process: it is asked again
		if asks[t.ID] == nil {
			asks[t.ID] = &again{}
		}
		if !asks[t.ID].due(d.opts.Nodes.Changed(), time.Now()) {
			return
		}
		anew = true
	case a.State == consent.StatePending:
		return
	case a.State == consent.StateDenied:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "A person denied this call.")
	case a.State == consent.StateClosed:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "the question was closed before anybody answered it")
	case a.State == consent.StateExpired:
		refusal = capabilities.Errorf(capabilities.CodeConsentDenied, "nobody answered in time")
	}
	d.tasks.begin(t.ID)
	running.Go(func() {
		defer d.tasks.end(t.ID)
		r := d.resume(ctx, t, refusal)
		if ctx.Err() != nil && r.Code == capabilities.CodeCancelled {
			return // the next process goes on with it, or settles what ran
		}
		// What stood between it and the question may pass; what a person allowed is
		// tried once.
		d.concludeTask(context.WithoutCancel(ctx), t.ID, &r, anew && passes(r.Code))
	})
}

// passes reports whether what refused a call may be over by itself.
func passes(code capabilities.Code) bool {
	return code.Info().Retryable || code == capabilities.CodeAmbiguousNode || code == capabilities.CodeCapabilityNotAdvertised
}

// resume carries a deferred call out as if it were made now.
func (d *Dispatcher) resume(ctx context.Context, t *Task, refusal *capabilities.Error) capabilities.Result {
	c := &call{req: Request{Tool: t.Tool}, began: time.Now()}
	kept, err := d.taskArgs(ctx, t)
	desc, ok := d.opts.Registry.Get(t.Tool)
	switch {
	case refusal != nil:
	case err != nil:
		refusal = capabilities.AsError(err)
	case !d.opts.Known(t.Principal, t.Role):
		refusal = capabilities.Errorf(capabilities.CodeForbidden, "whoever asked has no valid token any more")
	case !ok || policy.NewProfile(desc).ManifestHash != t.Manifest:
		refusal = capabilities.Errorf(capabilities.CodeConflict, "the tool is not what it was when the call was made").WithHint("Call again.")
	}
	if refusal != nil {
		return c.failure(refusal)
	}
	return d.Call(ctx, Request{
		Caller: Caller{Principal: t.Principal, Role: t.Role, Lane: t.Lane}, Tool: t.Tool, Args: kept.Args, RequestID: t.RequestID, Surface: t.Surface, task: t.ID,
	})
}

// concludeTask keeps the result for the identical call. A task that did not run waits
// on if there is a question that it waits for, or if waits says so. What was dropped
// meanwhile is left at that.
func (d *Dispatcher) concludeTask(ctx context.Context, id string, r *capabilities.Result, waits bool) {
	details, _ := r.Details.(map[string]any)
	approval, _ := details["approval"].(string)
	waits = waits || r.Code == capabilities.CodeApprovalPending && approval != ""
	data, err := packResult(r)
	if err == nil {
		err = d.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
			_, err := d.changeTask(tx, id, func(t *Task) (ledger.Kind, error) {
				if t.State == TaskWaiting && waits {
					if approval != "" {
						t.Approval = approval
					}
					return "", nil
				}
				t.State, t.Call, t.Code = TaskEnded, r.Call, r.Code
				return "gateway.task.ended", d.opts.Outcomes.PutIn(tx, capabilities.CallID(id), taskResult, data, time.Until(t.Expires)+resultMemory)
			})
			return err
		})
	}
	if err != nil {
		d.opts.Log.Error("dispatch.task.unrecorded", "task", id, "err", err)
	}
	d.tasks.tell()
}
