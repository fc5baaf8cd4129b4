package journal

import (
	"bytes"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// written is a journal with one entry of each kind, closed.
func written(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j, err := Open(Options{Dir: dir, Chain: "n1", Key: testKey(1)})
	if err != nil {
		t.Fatal(err)
	}
	ticket := &wire.Ticket{Call: "c1", Tool: "tool.browser.click", Lane: "l", Sequence: 7, Args: []byte(`{}`), Envelope: []byte(`{"principal":"al\"ice","x":1}`), Grants: []string{"k", "grant:g1"}}
	j.Refused(&wire.Ticket{Call: "c0", Tool: "tool.browser.type", Lane: "l", Envelope: ticket.Envelope}, capabilities.CodeDeniedByNode)
	for _, err := range []error{
		j.Ruled("sha256:1"), j.Ruled("sha256:1"), j.Turned(true, "device"), j.Turned(false, "device"),
		j.Answered("c1", ticket.Tool, "l", "alice", true, "ada", time.Minute), j.Started(t.Context(), ticket),
		j.Finished("c1", &wire.Answer{Status: capabilities.StatusOK, Effect: capabilities.EffectConfirmed}), j.tick(), j.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadWithoutANode(t *testing.T) {
	dir := written(t)
	l, err := Read(dir, "n1")
	if err != nil {
		t.Fatal(err)
	}
	want := []Record{
		{Kind: KindRefused, Call: "c0", Tool: "tool.browser.type", Lane: "l", Principal: `al"ice`, Code: capabilities.CodeDeniedByNode},
		{Kind: KindOwner, Rules: "sha256:1"}, {Kind: KindStopped, By: "device"}, {Kind: KindResumed, By: "device"},
		{Kind: KindAnswered, Call: "c1", Tool: "tool.browser.click", Lane: "l", Principal: "alice", Answer: "approve", By: "ada", Seconds: 60},
		{Kind: KindStarted, Call: "c1", Tool: "tool.browser.click", Lane: "l", Principal: `al"ice`, Grant: "g1"},
		{Kind: KindFinished, Call: "c1", Status: capabilities.StatusOK, Effect: capabilities.EffectConfirmed},
	}
	if len(l.Records) != len(want) || l.Head.Seq != uint64(len(want)) || l.First != 1 || l.Last != uint64(len(want)) {
		t.Fatalf("%d records, %+v", len(l.Records), l)
	}
	for i, r := range l.Records {
		r.Seq, r.TimeUS, r.Hash, r.Prev, r.Envelope = 0, 0, want[i].Hash, want[i].Prev, ""
		if r != want[i] {
			t.Errorf("entry %d: %+v, want %+v", i+1, r, want[i])
		}
	}
	if _, err := Read(dir, "n2"); capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt {
		t.Errorf("another node's log: %v", err)
	}
	if _, err := Read(t.TempDir(), "n1"); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("no log: %v", err)
	}
}

// A flood of refusals does not push out what ran.
func TestRefusalsAreBounded(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	j, err := Open(Options{Dir: dir, Chain: "n1", Key: testKey(1), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 * notesAtOnce {
		j.Refused(&wire.Ticket{Call: "c"}, capabilities.CodeTicketInvalid)
	}
	now = now.Add(10 * time.Second)
	for range 10 * notesAtOnce {
		j.Refused(&wire.Ticket{Call: "c"}, capabilities.CodeTicketInvalid)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := Read(dir, "n1"); err != nil || l.Last != notesAtOnce+10*notesEach {
		t.Errorf("%+v, %v", l, err)
	}
}

// FuzzReadExport: what is not exactly what was written is refused without a value.
func FuzzReadExport(f *testing.F) {
	var b bytes.Buffer
	if err := Export(&b, written(f), "n1", testKey(1), time.UnixMilli(1)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()/2])
	f.Add([]byte(`{"type":"header","format":"handrail-journal/1","chain":"n1"}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ReadExport(bytes.NewReader(data))
		switch {
		case (err == nil) != (x != nil):
			t.Fatalf("%v with %v", x, err)
		case err == nil && len(x.Records) > 0 && x.Last-x.First+1 != uint64(len(x.Records)):
			t.Fatalf("%+v", x)
		case err != nil && capabilities.CodeOf(err) != capabilities.CodeInvalidRequest && capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt:
			t.Fatal(err)
		}
	})
}
