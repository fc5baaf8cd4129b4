package journal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// inRun are options of a process in a run of the system; "" where nothing says which it is.
func inRun(dir, run string) Options {
	o := options(dir)
	o.Boot = func() string { return run }
	return o
}

// stateOver is a call's state, its ticket having come over a connection that said recall.
func stateOver(j *Journal, id, said string) wire.CallState {
	return j.States(context.Background(), &wire.JournalAsk{Calls: []capabilities.CallID{capabilities.CallID(id)}, Recalls: []string{said}})[0].State
}

// killed copies what a journal that is still open leaves to the next process.
func killed(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func gapsIn(t *testing.T, dir string) (n int) {
	t.Helper()
	l, err := Read(dir, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range l.Records {
		if r.Kind == KindGap {
			n++
		}
	}
	return n
}

// However much of the journal a power cut leaves, no call that began is said not to have; the next
// run of the system is exact about its own.
func TestPowerCut(t *testing.T) {
	base := t.TempDir()
	j := openWith(t, inRun(base, "one"))
	start(t, j, "a")
	finish(t, j, "a")
	if err := j.flush(); err != nil {
		t.Fatal(err)
	}
	began := []string{"a", "b", "c", "d"}
	for _, id := range began[1:] {
		start(t, j, id)
	}
	finish(t, j, "c")
	end, before := j.off, j.Recall()
	left := killed(t, base)
	whole, err := os.ReadFile(segmentPath(left, 1))
	if err != nil {
		t.Fatal(err)
	}
	cuts := map[string]func(at int64) []byte{
		"truncated": func(at int64) []byte { return whole[:at] },
		"zeroed":    func(at int64) []byte { return append(bytes.Clone(whole[:at]), make([]byte, int64(len(whole))-at)...) },
		"late": func(at int64) []byte { // what came after it is on the disk
			b := bytes.Clone(whole)
			clear(b[at:min(at+200, end)])
			return b
		},
	}
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) {
			for at := range end + 1 {
				if at%41 != 0 && at != end { // records are longer
					continue
				}
				dir := killed(t, left)
				if err := os.WriteFile(segmentPath(dir, 1), cut(at), 0o600); err != nil {
					t.Fatal(err)
				}
				j, err := Open(inRun(dir, "two"))
				if err != nil {
					t.Fatalf("cut at %d: %v", at, err)
				}
				if j.Recall() == before || j.Recall() == "" {
					t.Fatalf("cut at %d: it recalls %q, as before", at, j.Recall())
				}
				for _, id := range append(began, "x") {
					for _, said := range []string{"", before} {
						if got := stateOver(j, id, said); got == wire.StateNeverStarted || got == wire.StateRunning {
							t.Errorf("cut at %d: %s, whose ticket came over %q, is %q", at, id, said, got)
						}
					}
				}
				start(t, j, "e")
				again := killed(t, dir)
				for _, j := range []*Journal{j, openWith(t, inRun(again, "two"))} {
					if stateOver(j, "x", "") != wire.StateUnknown || stateOver(j, "x", before) != wire.StateUnknown ||
						stateOver(j, "x", j.Recall()) != wire.StateNeverStarted || stateOver(j, "e", "") == wire.StateNeverStarted {
						t.Errorf("cut at %d: a later process or this one says otherwise", at)
					}
				}
				if got := gapsIn(t, again); got != 1 {
					t.Errorf("cut at %d: %d gaps are recorded", at, got)
				}
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// A kill loses nothing, and neither does a system that ends after the journal was closed.
func TestWithoutAPowerCutItIsExact(t *testing.T) {
	base := t.TempDir()
	j := openWith(t, inRun(base, "one"))
	start(t, j, "a")
	exact := func(dir, run, said string) {
		t.Helper()
		j := openWith(t, inRun(dir, run))
		if j.Recall() != said {
			t.Errorf("%s: it recalls %q, not %q", run, j.Recall(), said)
		}
		if stateOver(j, "a", "") != wire.StateUnknown || stateOver(j, "x", "") != wire.StateNeverStarted {
			t.Errorf("%s: a is %q, x is %q", run, stateOver(j, "a", ""), stateOver(j, "x", ""))
		}
		if got := gapsIn(t, dir); got != 0 {
			t.Errorf("%s: %d gaps", run, got)
		}
	}
	exact(killed(t, base), "one", j.Recall())
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	exact(killed(t, base), "two", j.Recall())
	exact(killed(t, base), "", j.Recall())
	old := killed(t, base) // of a version that put each start on disk
	if err := os.Remove(filepath.Join(old, recallFile)); err != nil {
		t.Fatal(err)
	}
	o := inRun(old, "two")
	if j := openWith(t, o); stateOver(j, "x", "") != wire.StateNeverStarted || gapsIn(t, old) != 0 {
		t.Error("a journal of an earlier version has a gap")
	}
}

// The file beside the journal is not believed once a power cut tore it, wherever it did.
func TestATornRecallIsAGap(t *testing.T) {
	base := t.TempDir()
	j := openWith(t, inRun(base, "one"))
	start(t, j, "a")
	said := j.Recall()
	file, err := os.ReadFile(filepath.Join(base, recallFile))
	if err != nil {
		t.Fatal(err)
	}
	text := len(bytes.TrimRight(file, " "))
	for at := 0; at < text; at += 5 {
		for name, torn := range map[string][]byte{"truncated": file[:at], "zeroed": append(bytes.Clone(file[:at]), make([]byte, len(file)-at)...)} {
			dir := killed(t, base)
			if err := os.WriteFile(filepath.Join(dir, recallFile), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := Open(inRun(dir, "one"))
			if err != nil {
				t.Fatal(err)
			}
			if j.Recall() == said || stateOver(j, "x", said) != wire.StateUnknown {
				t.Errorf("%s at %d: it recalls %q, and x is %q", name, at, j.Recall(), stateOver(j, "x", said))
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Each run of the system that ends without warning is a gap of its own.
func TestEachPowerCutIsAGap(t *testing.T) {
	dir := t.TempDir()
	names := map[string]bool{}
	for run := range 5 {
		j := openWith(t, inRun(dir, fmt.Sprint(run)))
		start(t, j, fmt.Sprint("call-", run))
		if names[j.Recall()] {
			t.Errorf("run %d recalls what an earlier one did", run)
		}
		names[j.Recall()] = true
		dir = killed(t, dir)
	}
	if got := gapsIn(t, dir); got != 4 {
		t.Errorf("%d gaps, want 4", got)
	}
}

// A gap is forgotten when no gateway asks any more about what was before it.
func TestAnOldGapIsForgotten(t *testing.T) {
	base := t.TempDir()
	start(t, openWith(t, inRun(base, "one")), "a")
	o := inRun(killed(t, base), "two")
	now := time.Now()
	o.Now = func() time.Time { return now }
	j := openWith(t, o)
	if got := stateOver(j, "x", ""); got != wire.StateUnknown {
		t.Errorf("x is %q", got)
	}
	now = now.Add(farBack)
	if got := stateOver(j, "x", ""); got != wire.StateNeverStarted {
		t.Errorf("after a week x is %q", got)
	}
}

// Calls wait for the disk where nothing says which run of the system it is, and where the sync of
// each second does not come.
func TestStartsWaitForTheDisk(t *testing.T) {
	onDisk := func(j *Journal) bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.durable == j.tail
	}
	j := openWith(t, inRun(t.TempDir(), ""))
	for i := range 3 {
		if start(t, j, fmt.Sprint("a", i)); !onDisk(j) {
			t.Error("nothing says which run it is, and it did not wait")
		}
	}
	o := inRun(t.TempDir(), "one")
	now := time.Now()
	o.Now = func() time.Time { return now }
	j = openWith(t, o)
	for i, want := range []struct {
		after time.Duration
		disk  bool
	}{{0, false}, {maxUnsynced, false}, {time.Millisecond, true}, {maxUnsynced, false}, {maxUnsynced + time.Millisecond, true}} {
		now = now.Add(want.after)
		if start(t, j, fmt.Sprint("b", i)); onDisk(j) != want.disk {
			t.Errorf("start %d, after %s: on disk %v", i, want.after, onDisk(j))
		}
	}
}
