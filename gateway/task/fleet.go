package task

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Of several gateways each carries out the tasks that it kept, for their questions are its own. The
// others read them, and take them over once it is put out.

// Tables are those whose change by another gateway Again is for.
var Tables = []string{"tasks"}

// Again tells those who wait for a task that another gateway changed one.
func (t *Tasks) Again(context.Context) error {
	t.notice.tell()
	return nil
}

// mine reports whether this gateway carries a task out.
func (t *Tasks) mine(one *Task) bool {
	me := t.opts.Store.Member()
	return me == "" || one.Member == me
}

// Ended is another gateway's word that a task of this one is cancelled, or dropped.
func (t *Tasks) Ended(id, approval string) {
	t.running.cancel(id, capabilities.Errorf(capabilities.CodeCancelled, "Its caller cancelled the task."))
	if t.opts.Consent != nil && approval != "" {
		t.opts.Consent.Withdraw(approval)
	}
	t.notice.tell()
}

// GoneIn takes over, as part of tx, the tasks of a gateway that was put out. Those that wait are
// asked about anew, and of those that run the end is awaited.
func (t *Tasks) GoneIn(tx *store.Tx, member string) error {
	rows, err := tx.Query(`SELECT body FROM tasks WHERE state = $1 OR state = $2`, string(Waiting), string(Running))
	if err != nil {
		return err
	}
	var all []Task
	for rows.Next() {
		var body string
		var one Task
		if err := rows.Scan(&body); err != nil {
			return errors.Join(err, rows.Close())
		}
		if err := json.Unmarshal([]byte(body), &one); err != nil {
			return errors.Join(err, rows.Close())
		}
		if one.Member == member {
			all = append(all, one)
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(all) == 0 {
		return err
	}
	var running []string
	for i := range all {
		one := &all[i]
		one.Member = t.opts.Store.Member()
		body, err := json.Marshal(one)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE tasks SET body = $1 WHERE task_id = $2`, string(body), one.ID); err != nil {
			return err
		}
		if one.State == Running {
			running = append(running, one.ID)
		}
	}
	tx.OnCommit(func() {
		t.taken.add(running)
		t.notice.tell()
	})
	return nil
}

// taken are running tasks of other gateways whose end is to be noted here.
type taken struct {
	mu  sync.Mutex
	ids []string
}

func (k *taken) add(ids []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ids = append(k.ids, ids...)
}

// all returns them, once.
func (k *taken) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := k.ids
	k.ids = nil
	return ids
}
