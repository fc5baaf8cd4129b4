package satellite

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
	"github.com/handrail-dev/handrail/platform/boot"
)

// opened is a journal that is as old as it has to be to answer "never".
func opened(t *testing.T, dir string) *journal {
	t.Helper()
	path := filepath.Join(dir, "voice.calls")
	if _, err := os.Stat(path); err != nil {
		old := fmt.Sprintf("{\"boot\":%q,\"forgot\":%d}\n", cmp.Or(boot.ID(), flushed), time.Now().Add(-2*memory).UnixMilli())
		if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j, err := openJournal(dir, "voice")
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func fate(t *testing.T, dir string, call capabilities.CallID) remote.State {
	t.Helper()
	j := opened(t, dir)
	defer j.close()
	return (&server{journal: j}).fates([]capabilities.CallID{call})[0].State
}

func begin(t *testing.T, j *journal, call capabilities.CallID) {
	t.Helper()
	if err := j.start(call); err != nil {
		t.Fatal(err)
	}
}

func text(of string) *remote.Result {
	return &remote.Result{Status: capabilities.StatusOK, Text: strings.Repeat(of, remote.MaxText/len(of))}
}

// No result, however it is escaped, hides the calls that come after it.
func TestJournalKeepsWhatFollowsALargeResult(t *testing.T) {
	for name, of := range map[string]string{"html": "<", "control": "\x01", "separator": "\u2028", "plain": "a"} {
		dir := t.TempDir()
		j := opened(t, dir)
		begin(t, j, "first")
		j.finish("first", text(of), nil)
		begin(t, j, "second")
		j.close()
		if got := fate(t, dir, "second"); got != remote.StateUnknown {
			t.Errorf("%s: a call that began is %s", name, got)
		}
		if got := fate(t, dir, "first"); got == remote.StateNever {
			t.Errorf("%s: the one before is %s", name, got)
		}
		if got := fate(t, dir, "third"); got != remote.StateNever {
			t.Errorf("%s: a call that never began is %s", name, got)
		}
	}
}

// A file that was begun anew has every call that began, and the newest results.
func TestJournalAnewForgetsNoCall(t *testing.T) {
	dir := t.TempDir()
	j := opened(t, dir)
	for i := range 200 {
		if i == 100 {
			begin(t, j, "running")
		}
		id := capabilities.CallID(fmt.Sprintf("c%d", i))
		begin(t, j, id)
		j.finish(id, text("a"), nil)
	}
	size := j.size
	j.close()
	if size > maxJournal {
		t.Errorf("the file has %d bytes", size)
	}
	j = opened(t, dir)
	defer j.close()
	want := []remote.State{remote.StateUnknown, remote.StateUnknown, remote.StateFinished, remote.StateNever}
	for i, f := range (&server{journal: j}).fates([]capabilities.CallID{"running", "c0", "c199", "c200"}) {
		if f.State != want[i] {
			t.Errorf("%s: %s, want %s", f.Call, f.State, want[i])
		}
	}
}

// A call that a journal may not know is not said never to have begun, by the next process either.
func TestJournalRemembersSinceWhen(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		j, err := openJournal(dir, "voice")
		if err != nil {
			t.Fatal(err)
		}
		if j.whole() {
			t.Error("a journal that began a moment ago knows every call")
		}
		j.mu.Lock()
		err = j.anew()
		j.mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		j.close()
	}
}

// A line that a power cut tore costs neither the next call nor the truth about its own.
func TestJournalTorn(t *testing.T) {
	dir := t.TempDir()
	j := opened(t, dir)
	begin(t, j, "first")
	if _, err := j.file.WriteString("{\"call\":\"to"); err != nil {
		t.Fatal(err)
	}
	j.close()
	j = opened(t, dir)
	begin(t, j, "second")
	j.close()
	for _, call := range []capabilities.CallID{"first", "torn", "second"} {
		if got := fate(t, dir, call); got != remote.StateUnknown {
			t.Errorf("%s: %s", call, got)
		}
	}
	if j := opened(t, dir); j.calls["second"] == nil {
		t.Error("the call after the torn line is gone")
	}
}

// However much of its file a power cut leaves, a satellite says of no call that began that it did
// not. A kill leaves all of it.
func TestJournalAfterAPowerCut(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "voice.calls")
	old := fmt.Sprintf("{\"boot\":\"one\",\"forgot\":%d}\n", time.Now().Add(-2*memory).UnixMilli())
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(run string) *journal {
		t.Helper()
		j, err := openJournalIn(run, dir, "voice")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(j.close)
		return j
	}
	j := in("one")
	began := []capabilities.CallID{"a", "b", "c"}
	for _, call := range began {
		begin(t, j, call)
	}
	j.finish("b", text("b"), nil)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := (&server{journal: in("one")}).fates([]capabilities.CallID{"x"})[0].State; got != remote.StateNever {
		t.Errorf("after a kill, a call that never began is %s", got)
	}
	for at := 0; at <= len(whole); at++ {
		if at > 400 && at < len(whole)-1 { // within the result
			continue
		}
		if err := os.WriteFile(path, whole[:at], 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the next process, and one after that
			for _, f := range (&server{journal: in("two")}).fates(began) {
				if f.State == remote.StateNever {
					t.Fatalf("cut at %d of %d: %s never began", at, len(whole), f.Call)
				}
			}
		}
	}
}
