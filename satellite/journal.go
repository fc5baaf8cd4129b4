package satellite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/platform/boot"
)

// The journal is a line of JSON for each beginning and each end, after one that says since when it
// knows every call. It is written before a call begins and survives the end of the process, which
// is what makes "it never began" true after one.
// A line is flushed to the disk only where the system does not say which of its runs this is: a
// file that another run wrote may lack its end, and then the answer is "unknown" for a while.

const (
	maxPast      = 20_000           // calls that are remembered
	maxPastBytes = 32 << 20         // of results' bytes, in memory only
	memory       = 10 * time.Minute // how long the gateway may ask about a call
	maxJournal   = 64 << 20         // bytes of the file; then it begins anew with what is remembered
	maxLine      = 2 << 20          // bytes; a result that makes more is left out
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
	torn   bool // its last line has no end
	calls  map[capabilities.CallID]*past
	order  []capabilities.CallID
	kept   int       // bytes of results in memory
	forgot time.Time // calls that began until then may be missing
	boot   string    // this run of the system, or flushed
}

// line is one line of the file: of a call, or of none with Boot or Forgot.
type line struct {
	Boot   string              `json:"boot,omitempty"`   // the run of the system in which what follows was written
	Forgot int64               `json:"forgot,omitempty"` // Unix milliseconds
	Call   capabilities.CallID `json:"call,omitempty"`
	At     int64               `json:"at,omitempty"`
	Result *remote.Result      `json:"result,omitempty"`
	Bytes  int                 `json:"bytes,omitempty"`
}

func openJournal(dir, name string) (*journal, error) {
	return openJournalIn(cmp.Or(boot.ID(), flushed), dir, name)
}

func openJournalIn(run, dir, name string) (*journal, error) {
	j := &journal{calls: map[capabilities.CallID]*past{}, name: name + ".calls", boot: run}
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
	written := ""
	for one := range bytes.Lines(data) {
		var l line
		if json.Unmarshal(one, &l) != nil { // torn: nobody knows of which call it was
			j.forgot = time.Now()
			continue
		}
		if l.Forgot > 0 {
			j.forgot = latest(j.forgot, time.UnixMilli(l.Forgot))
		}
		if l.Boot != "" {
			written = l.Boot
		}
		if l.Call == "" {
			continue
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
	j.size, j.torn = int64(len(data)), len(data) > 0 && data[len(data)-1] != '\n'
	if err := j.begin(written); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// flushed stands for a run of the system where nothing says which it is: each beginning is on the
// disk before its call begins.
const flushed = "flushed"

// begin notes what writes from here on; written is what wrote last. The file of another run of the
// system may lack its end, and so may that of an earlier version, which noted nothing.
func (j *journal) begin(written string) error {
	if written == j.boot {
		return nil
	}
	if written != flushed {
		j.forgot = time.Now()
	}
	if err := j.write(line{Boot: j.boot, Forgot: j.forgot.UnixMilli()}); err != nil {
		return err
	}
	return j.file.Sync()
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
	if j.boot == flushed && j.file != nil {
		if err := j.file.Sync(); err != nil {
			return err
		}
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
	data, err := l.encode()
	if err != nil {
		return err
	}
	if j.torn { // the next one is not lost with it
		data = append([]byte{'\n'}, data...)
	}
	n, err := j.file.Write(data)
	j.size += int64(n)
	j.torn = err != nil && (n > 0 || j.torn)
	return err
}

// encode returns the line with its end; a result that is too large for one is left out: then how
// the call ended is "unknown" after a restart.
func (l line) encode() ([]byte, error) {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, err
	}
	if one.Len() > maxLine && l.Result != nil {
		l.Result = nil
		return l.encode()
	}
	return one.Bytes(), nil
}

// anew writes the file from what is remembered: every call, and the results of the newest.
func (j *journal) anew() error {
	lines := make([][]byte, 0, len(j.order)+1)
	size := 0
	for _, id := range slices.Backward(j.order) {
		p := j.calls[id]
		l := line{Call: id, At: p.at.UnixMilli(), Result: p.result, Bytes: p.size}
		if size > maxJournal/2 {
			l.Result = nil
		}
		one, err := l.encode()
		if err != nil {
			return err
		}
		lines, size = append(lines, one), size+len(one)
	}
	head, err := line{Boot: j.boot, Forgot: j.forgot.UnixMilli()}.encode()
	if err != nil {
		return err
	}
	lines = append(lines, head)
	slices.Reverse(lines)
	all := bytes.Join(lines, nil)
	if err := j.root.WriteFile(j.name+".new", all, 0o600); err != nil {
		return err
	}
	if err := j.root.Rename(j.name+".new", j.name); err != nil {
		return err
	}
	f, err := j.root.OpenFile(j.name, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if j.boot == flushed {
		if err := f.Sync(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_ = j.file.Close()
	j.file, j.size, j.torn = f, int64(len(all)), false
	return nil
}
