package satellite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// The journal is a line of JSON for each beginning and each end. It is written before a call
// begins and survives the end of the process, which is what makes "it never began" true after one.
// Lines are not flushed to the disk: after a power cut the answer is "unknown" for a while.

const (
	maxPast      = 20_000           // calls that are remembered
	maxPastBytes = 32 << 20         // of results' bytes, in memory only
	memory       = 10 * time.Minute // how long the gateway may ask about a call
	maxJournal   = 64 << 20         // bytes of the file; then it begins anew with what is remembered
)

// past is a call that began; result is nil while it runs, and for one whose process ended.
type past struct {
	result *remote.Result
	size   int // of its bytes
	bytes  []byte
	at     time.Time
}

type journal struct {
	mu     sync.Mutex
	root   *os.Root // nil: in memory only
	name   string
	file   *os.File
	size   int64
	calls  map[capabilities.CallID]*past
	order  []capabilities.CallID
	kept   int // bytes of results in memory
	forgot time.Time
}

// line is one line of the file.
type line struct {
	Call   capabilities.CallID `json:"call"`
	At     int64               `json:"at"`
	Result *remote.Result      `json:"result,omitempty"`
	Bytes  int                 `json:"bytes,omitempty"`
}

func openJournal(dir, name string) (*journal, error) {
	j := &journal{calls: map[capabilities.CallID]*past{}, name: name + ".calls"}
	if dir == "" {
		j.forgot = time.Now()
		return j, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	j.root = root
	data, err := readBounded(root, j.name, 2*maxJournal)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.forgot = time.Now() // there may have been one
	case err != nil:
		return nil, errors.Join(err, root.Close())
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 2<<20)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Call == "" {
			continue // torn by a power cut
		}
		p := j.calls[l.Call]
		if p == nil {
			p = &past{at: time.UnixMilli(l.At)}
			j.calls[l.Call] = p
			j.order = append(j.order, l.Call)
		}
		p.result, p.size = l.Result, l.Bytes
	}
	if j.file, err = root.OpenFile(j.name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	j.size = int64(len(data))
	return j, nil
}

func (j *journal) close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		_ = j.file.Close()
	}
	if j.root != nil {
		_ = j.root.Close()
	}
	j.file, j.root = nil, nil
}

func (j *journal) find(id capabilities.CallID) (past, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p := j.calls[id]; p != nil {
		return *p, true
	}
	return past{}, false
}

// whole reports whether every call that somebody may ask about would be known.
func (j *journal) whole() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.forgot) > memory
}

func (j *journal) start(id capabilities.CallID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := time.Now()
	if err := j.write(line{Call: id, At: now.UnixMilli()}); err != nil {
		return err
	}
	j.calls[id] = &past{at: now}
	j.order = append(j.order, id)
	for len(j.order) > maxPast {
		old := j.order[0]
		j.order = j.order[1:]
		if p := j.calls[old]; p != nil {
			j.forgot = latest(j.forgot, p.at)
			j.kept -= len(p.bytes)
			delete(j.calls, old)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (j *journal) finish(id capabilities.CallID, r *remote.Result, data []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.calls[id]
	if p == nil {
		return
	}
	p.result, p.size = r, len(data)
	if j.kept+len(data) > maxPastBytes {
		for _, o := range j.calls {
			o.bytes = nil
		}
		j.kept = 0
	}
	p.bytes = data
	j.kept += len(data)
	_ = j.write(line{Call: id, At: p.at.UnixMilli(), Result: r, Bytes: len(data)}) // then it is "unknown" after a restart
}

func (j *journal) write(l line) error {
	if j.file == nil {
		return nil
	}
	if j.size > maxJournal {
		if err := j.anew(); err != nil {
			return err
		}
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	n, err := j.file.Write(append(data, '\n'))
	j.size += int64(n)
	return err
}

// anew writes the file from what is remembered.
func (j *journal) anew() error {
	var all bytes.Buffer
	enc := json.NewEncoder(&all)
	for _, id := range j.order {
		p := j.calls[id]
		if err := enc.Encode(line{Call: id, At: p.at.UnixMilli(), Result: p.result, Bytes: p.size}); err != nil {
			return err
		}
		if all.Len() > maxJournal/2 { // results are large: the rest is forgotten
			j.forgot = time.Now()
			break
		}
	}
	if err := j.root.WriteFile(j.name+".new", all.Bytes(), 0o600); err != nil {
		return err
	}
	if err := j.root.Rename(j.name+".new", j.name); err != nil {
		return err
	}
	_ = j.file.Close()
	f, err := j.root.OpenFile(j.name, os.O_WRONLY|os.O_APPEND, 0o600)
	j.file, j.size = f, int64(all.Len())
	return err
}
