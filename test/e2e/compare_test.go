package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/test/site"
)

// nodeLog reads what a node recorded, in the comparison's terms.
func nodeLog(l *journal.Log) ledger.NodeLog {
	kinds := map[string]ledger.NodeKind{journal.KindStarted: ledger.NodeStarted, journal.KindFinished: ledger.NodeFinished, journal.KindRefused: ledger.NodeRefused}
	out := ledger.NodeLog{Node: capabilities.NodeID(l.Chain), First: l.First, Seen: l.Peers, Taken: time.Now(), Live: true}
	for _, r := range l.Records {
		out.Entries = append(out.Entries, ledger.NodeEntry{
			Seq: r.Seq, TimeUS: r.TimeUS, Hash: r.Hash, Kind: kinds[r.Kind], Call: r.Call, Tool: r.Tool, Lane: r.Lane, Principal: r.Principal,
			Envelope: r.Envelope, Status: r.Status, Code: r.Code, Effect: r.Effect,
		})
	}
	if len(l.Records) > 0 {
		out.Before = l.Records[0].Prev
	}
	return out
}

// A gateway and a node that worked together agree to the last entry, each having
// seen the other's; and of what is then taken from either, nothing goes unseen.
func TestTheTwoLedgersAgree(t *testing.T) {
	t.Parallel()
	s := site.Start(t, site.Options{})
	h := site.NewHandler()
	n := s.AddNode("desk", h)
	s.Grant("agent", n, "tool.fixture.press")
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			tool, args := capabilities.ToolID("tool.fixture.echo"), fmt.Sprintf(`{"text":"e%d"}`, i)
			switch i % 4 {
			case 1:
				tool, args = "tool.fixture.fail", fmt.Sprintf(`{"code":"execution_failed","text":"f%d"}`, i)
			case 2:
				tool = site.ToolPress
			case 3:
				tool, args = "tool.fixture.nothing", `{}` // refused before it is sent
			}
			s.Call(t.Context(), tool, args, "")
		})
	}
	calls.Wait()
	dir := journal.Dir(n.Dir, string(n.ID))
	read := func() *journal.Log {
		t.Helper()
		l, err := journal.Read(dir, string(n.ID))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	export := func() []byte {
		t.Helper()
		var b bytes.Buffer
		if err := s.Ledger.Export(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	compare := func(export []byte, log ledger.NodeLog) ledger.Comparison {
		t.Helper()
		c, err := ledger.Compare(bytes.NewReader(export), ledger.Pins{}, log)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// Heads go with hello and with heartbeats; a new connection need not be waited for.
	n.Stop()
	if err := s.Ledger.Sign(context.Background()); err != nil {
		t.Fatal(err)
	}
	n.Start()
	var c ledger.Comparison
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c = compare(export(), nodeLog(read()))
		if len(c.Differences) > 0 || c.Witnessed == uint64(c.NodeEntries) && c.SeenByNode > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the two have not seen each other's end: %+v", c)
		}
	}
	if len(c.Differences) > 0 || c.Calls != 9 || c.Unsettled != 0 {
		t.Fatalf("%+v", c)
	}
	// The device's export says the same elsewhere.
	id, err := link.LoadIdentity(n.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := journal.Export(&file, dir, string(n.ID), id.Key, time.Now()); err != nil {
		t.Fatal(err)
	}
	x, err := journal.ReadExport(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if c := compare(export(), nodeLog(&x.Log)); len(c.Differences) > 0 || c.Calls != 9 {
		t.Errorf("%+v", c)
	}
	text := file.String()
	for at := 0; at < len(text); at += max(len(text)/150, 1) {
		if text[at] == '\n' {
			continue
		}
		if _, err := journal.ReadExport(strings.NewReader(text[:at] + string(text[at]^1) + text[at+1:])); err == nil {
			t.Fatalf("a changed byte %d passes", at)
		}
	}
	// Of the log itself: every cut, and changed bytes.
	n.Stop()
	ours := export()
	full := nodeLog(read())
	for keep := range full.Entries {
		short := full
		short.Entries = full.Entries[:keep]
		if c := compare(ours, short); len(c.Differences) == 0 {
			t.Errorf("a log of %d of %d entries passes", keep, len(full.Entries))
		}
	}
	segments, err := filepath.Glob(filepath.Join(dir, "journal-*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	data, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(segments[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	used := len(bytes.TrimRight(data, "\x00"))
	for at := 0; at < used; at += max(used/25, 1) {
		if _, err := f.WriteAt([]byte{data[at] ^ 0x10}, int64(at)); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Read(dir, string(n.ID)); capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt {
			t.Errorf("a changed byte %d of %d: %v", at, used, err)
		}
		if _, err := f.WriteAt(data[at:at+1], int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}
