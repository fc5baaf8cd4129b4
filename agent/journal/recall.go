package journal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities/wire"
)

// recall says what the journal reaches back to without a gap. It lies in a file beside the
// segments, and says before the first record what a start after a power cut has to know.
//
// Records are with the kernel before their calls begin, and on disk within a second or so. The
// kernel keeps them over every end of the process, and over none of the system. So a journal that
// was not closed, and is opened in another run of the system, may lack its last records.
type recall struct {
	Version int `json:"v"`
	// Boot names the run of the system whose kernel may have records that the disk has not. "": the
	// disk has all of them.
	Boot string `json:"boot"`
	// Name is another after each gap. A ticket that came over a connection whose hello said it is in
	// the journal, if its call began.
	Name string `json:"name"`
	// Gap: what was recorded before Name was made may be lost.
	Gap bool `json:"gap"`
}

const (
	recallFile    = "recall.json"
	recallVersion = 1
	// recallBytes is the size of the file. It is overwritten in its place, so that it needs no room
	// on a full disk; what a power cut tears cannot be read, which counts as a gap.
	recallBytes = 256
)

// begin finds out whether the journal has a gap, and notes in which run of the system records are
// written from now on.
func (j *Journal) begin() error {
	now := recall{Version: recallVersion, Boot: j.opts.Boot(), Name: rand.Text()}
	was, err := j.readRecall()
	fresh := false
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A new journal, or one of an earlier version, which put each start on disk at once.
	case err != nil:
		return err
	case was.Version != recallVersion:
		fresh = true // spoiled, or torn by a power cut
	case was.Boot == "" || was.Boot == now.Boot:
		now.Name, now.Gap = was.Name, was.Gap
	default:
		fresh = true
	}
	if fresh {
		now.Gap = true
		j.opts.Log.Warn("journal.gap", "after", j.tail.seq)
		if err := j.noteGap(); err != nil {
			return err
		}
	}
	j.recall, j.began = now, j.opts.Now()
	if now == was {
		return nil
	}
	return j.writeRecall(now)
}

// noteGap puts a record on disk of records that may be missing before it.
func (j *Journal) noteGap() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.appendLocked(0, KindGap, func(b []byte) []byte { return b }); err != nil {
		return err
	}
	if err := syncData(j.file); err != nil {
		return j.poisonLocked(err)
	}
	j.durable, j.unsynced = j.tail, 0
	return nil
}

func (j *Journal) readRecall() (r recall, err error) {
	data, err := os.ReadFile(filepath.Join(j.opts.Dir, recallFile))
	if err != nil {
		return recall{}, err
	}
	if json.Unmarshal(data, &r) != nil || r.Name == "" {
		return recall{}, nil
	}
	return r, nil
}

func (j *Journal) writeRecall(r recall) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for len(data) < recallBytes {
		data = append(data, ' ')
	}
	f, err := os.OpenFile(filepath.Join(j.opts.Dir, recallFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(j.opts.Dir)
}

// spoil has the next process count what this one wrote as lost, even in the same run of the system:
// the disk failed, and the kernel may forget what it could not write. It needs no working disk.
func (j *Journal) spoil() {
	if err := os.Truncate(filepath.Join(j.opts.Dir, recallFile), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.opts.Log.Error("journal.unspoiled", "err", err)
	}
}

// settled notes that the disk has everything: then no end of the system makes a gap.
func (j *Journal) settled() {
	r := j.recall
	if r.Boot == "" {
		return
	}
	r.Boot = ""
	if err := j.writeRecall(r); err != nil {
		j.opts.Log.Warn("journal.unsettled", "err", err) // the next run of the system finds a gap
	}
}

// Recall names what the journal reaches back to, for the hello: a ticket that comes over its
// connection is in the journal if its call began, or the name is another one by then.
func (j *Journal) Recall() string { return j.recall.Name }

// maxUnsynced bounds how long a record may be with the kernel only. Where Run cannot keep up with
// its sync of each second, calls wait for the disk.
const maxUnsynced = 3 * time.Second

// waitsLocked reports whether a call that starts has to wait for the disk.
func (j *Journal) waitsLocked() bool {
	return j.recall.Boot == "" || j.unsynced != 0 && j.opts.Now().UnixMicro()-j.unsynced > maxUnsynced.Microseconds()
}

// absentLocked is the state of a call that is not in the journal, whose ticket came over a
// connection that said recall, "" when nobody knows: never started, unless the record of its start
// may be lost, or the journal does not reach back far enough to tell.
func (j *Journal) absentLocked(now time.Time, said string) wire.CallState {
	if j.recall.Gap && said != j.recall.Name && now.Sub(j.began) < farBack {
		return wire.StateUnknown
	}
	oldest := j.files[0]
	if oldest.first == 1 || oldest.since != 0 && now.Sub(time.UnixMicro(oldest.since)) > farBack {
		return wire.StateNeverStarted
	}
	return wire.StateUnknown
}

// States tells what became of calls, in the same order.
func (j *Journal) States(_ context.Context, ask *wire.JournalAsk) []wire.JournalState {
	now := j.opts.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	states := make([]wire.JournalState, len(ask.Calls))
	for i, call := range ask.Calls {
		states[i] = wire.JournalState{Call: call}
		k, ok := j.index.get(call)
		if !ok {
			states[i].State = j.absentLocked(now, ask.Recall(i))
			continue
		}
		states[i].State = k.state
		if k.state == wire.StateFinished {
			if states[i].Answer = j.answers.get(call, now); states[i].Answer == nil {
				states[i].Answer = k.failed
			}
		}
	}
	return states
}
