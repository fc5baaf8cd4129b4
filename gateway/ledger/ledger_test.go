package ledger

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) {
	if childMode() {
		return
	}
	goleak.VerifyTestMain(m)
}

// testKey is a fixed key, the n-th.
func testKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func openStore(t testing.TB, path string) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: path, Migrations: Migrations, ReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func openOn(t testing.TB, s *store.Store, o Options) *Ledger {
	t.Helper()
	o.Store = s
	if o.Chain == "" {
		o.Chain = "gateway-1"
	}
	if o.Key == nil {
		o.Key = testKey(1)
	}
	l, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func open(t testing.TB, o Options) *Ledger {
	return openOn(t, openStore(t, filepath.Join(t.TempDir(), "store.db")), o)
}

// call is the four packets of one call.
func call(id string) []Draft {
	d := Draft{Call: capabilities.CallID(id), Tool: "tool.browser.click", Principal: "agent-1", Lane: "lane-1", Node: "node-1"}
	var all []Draft
	for _, k := range []Kind{KindCallRequest, KindCallDecision, KindCallDispatch, KindCallResult} {
		d.Kind = k
		d.Body = map[string]any{"digest": "0123456789abcdef0123456789abcdef", "kind": string(k), "args": map[string]any{"/ref": "e12"}, "html": "<&>"}
		all = append(all, d)
	}
	return all
}

func mustAppend(t testing.TB, l *Ledger, drafts ...Draft) {
	t.Helper()
	if err := l.Append(context.Background(), drafts...); err != nil {
		t.Fatal(err)
	}
}

// walk checks the whole chain as it stands in the store.
func walk(t testing.TB, l *Ledger) (n int) {
	t.Helper()
	w := chain.NewWalker(l.chain)
	err := l.scan(context.Background(), "ORDER BY seq", nil, func(p *Packet) error {
		n++
		return w.Step(p.Seq, p.Prev, p.TimeUS, chain.Sum(p.appendPreimage(nil)))
	})
	if err != nil {
		t.Fatal(err)
	}
	if seq, hash := l.Tip(); seq != w.Next-1 || hash != w.Prev {
		t.Fatalf("tip is %d %v; the chain ends at %d %v", seq, hash, w.Next-1, w.Prev)
	}
	return n
}

func TestAppendSurvivesRollbacks(t *testing.T) {
	l := open(t, Options{})
	for i := range 30 {
		mustAppend(t, l, call(fmt.Sprint("call-", i))...)
		err := l.store.Write(t.Context(), func(tx *store.Tx) error {
			if _, err := l.AppendIn(tx, call("lost")...); err != nil {
				return err
			}
			return capabilities.Errorf(capabilities.CodeConflict, "no")
		})
		if capabilities.CodeOf(err) != capabilities.CodeConflict {
			t.Fatal(err)
		}
	}
	if n := walk(t, l); n != 120 {
		t.Errorf("%d packets, want 120", n)
	}
}

func TestQueries(t *testing.T) {
	l := open(t, Options{})
	for i := range 5 {
		mustAppend(t, l, call(fmt.Sprint("call-", i))...)
	}
	mustAppend(t, l, Draft{Kind: "node.joined", Node: "node-9"}, Draft{Kind: "nodes.other", Principal: "admin"})
	for name, c := range map[string]struct {
		q    Query
		seqs []uint64
	}{
		"call":      {Query{Call: "call-1"}, []uint64{5, 6, 7, 8}},
		"kind":      {Query{Kind: KindCallDispatch}, []uint64{3, 7, 11, 15, 19}},
		"prefix":    {Query{Kind: "node."}, []uint64{21}},
		"after":     {Query{After: 19}, []uint64{20, 21, 22}},
		"before":    {Query{Before: 3}, []uint64{1, 2}},
		"newest":    {Query{Newest: true, Limit: 2}, []uint64{22, 21}},
		"node":      {Query{Node: "node-9"}, []uint64{21}},
		"principal": {Query{Principal: "admin"}, []uint64{22}},
		"several":   {Query{Kind: KindCallResult, Lane: "lane-1", Tool: "tool.browser.click", After: 8, Limit: 1}, []uint64{12}},
		"nothing":   {Query{Call: "nope"}, nil},
	} {
		packets, err := l.Packets(t.Context(), c.q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var seqs []uint64
		for _, p := range packets {
			seqs = append(seqs, p.Seq)
		}
		if !slices.Equal(seqs, c.seqs) {
			t.Errorf("%s: %v, want %v", name, seqs, c.seqs)
		}
	}
}

// The calls inside a call are found by an index, in a ledger that is older than it, too.
func TestStepsAreFoundByAnIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	step := func(id, parent string) Draft {
		return Draft{Kind: KindCallRequest, Call: capabilities.CallID(id), Tool: "tool.browser.click", Body: map[string]any{"evidence": map[string]any{"parent_call_id": "other", "text": `"parent_call_id":"p1"`}, "parent_call_id": parent}}
	}
	old, err := store.Open(t.Context(), store.Options{Path: path, Migrations: Migrations[:1], ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, openOn(t, old, Options{}), append(call("p1"), step("s1", "p1"), step("s2", "p2"))...)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	l := openOn(t, openStore(t, path), Options{})
	mustAppend(t, l, append(call("p3"), step("s3", "p1"))...)
	for name, c := range map[string]struct {
		q     Query
		calls []capabilities.CallID
	}{
		"steps":        {Query{Parent: "p1"}, []capabilities.CallID{"s1", "s3"}},
		"steps, later": {Query{Parent: "p1", After: 5, Kind: "tool.call."}, []capabilities.CallID{"s3"}},
		"none":         {Query{Parent: "other"}, nil},
		"whole calls":  {Query{Whole: true, Kind: KindCallRequest}, []capabilities.CallID{"p1", "p3"}},
	} {
		packets, err := l.Packets(t.Context(), c.q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var calls []capabilities.CallID
		for _, p := range packets {
			calls = append(calls, p.Call)
		}
		if !slices.Equal(calls, c.calls) {
			t.Errorf("%s: %v, want %v", name, calls, c.calls)
		}
		tail, args := c.q.sql()
		var id, parent, unused int
		var plan string
		if err := l.store.Read().QueryRow("EXPLAIN QUERY PLAN SELECT "+columns+" FROM packet_store "+tail, args...).Scan(&id, &parent, &unused, &plan); err != nil {
			t.Fatal(err)
		}
		if c.q.Parent != "" && !strings.Contains(plan, "packet_store_parent") {
			t.Errorf("%s: %s", name, plan)
		}
	}
}

func TestDraftsAreBounded(t *testing.T) {
	l := open(t, Options{})
	for name, d := range map[string]Draft{
		"no kind":     {},
		"large body":  {Kind: "x.y", Body: map[string]string{"a": strings.Repeat("x", MaxBody)}},
		"no object":   {Kind: "x.y", Body: []int{1}},
		"bad raw":     {Kind: "x.y", Body: json.RawMessage(`{"a":1,"a":2}`)},
		"long field":  {Kind: "x.y", Lane: capabilities.LaneID(strings.Repeat("x", 300))},
		"not a value": {Kind: "x.y", Body: func() {}},
	} {
		if err := l.Append(t.Context(), d); err == nil {
			t.Errorf("%s was recorded", name)
		}
	}
	if n := walk(t, l); n != 0 {
		t.Errorf("%d packets", n)
	}
	mustAppend(t, l, Draft{Kind: "x.y", Body: json.RawMessage(` {"b":1, "a":"<&>\u2028"} `)}, Draft{Kind: "x.y"})
	packets, err := l.Packets(t.Context(), Query{})
	if err != nil || string(packets[0].Body) != "{\"a\":\"<&>\u2028\",\"b\":1}" || string(packets[1].Body) != "{}" {
		t.Errorf("bodies %v, %v", packets, err)
	}
	if _, err := Verify(bytes.NewReader(export(t, l)), Pins{}); err != nil {
		t.Error(err)
	}
}

func TestReadersMissNothing(t *testing.T) {
	l := open(t, Options{})
	const n = 400
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range n / 16 {
				mustAppend(t, l, call("c")...)
			}
		})
	}
	for after := uint64(0); after < n; {
		changed := l.Changed() // taken before reading
		packets, err := l.Packets(t.Context(), Query{After: after})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			if after++; p.Seq != after {
				t.Fatalf("packet %d, want %d", p.Seq, after)
			}
		}
		if len(packets) == 0 {
			<-changed
		}
	}
	wg.Wait()
}

func TestRunSignsSealsAndPrunes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, filepath.Join(dir, "store.db"))
		l := openOn(t, s, Options{SegmentEntries: 100, Retention: 30 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()

		mustAppend(t, l, call("a")...)
		time.Sleep(1500 * time.Millisecond) // the bubble's clock
		if got := l.Head(); got.Seq != 4 || got.Verify() != nil {
			t.Errorf("head after a second: %+v", got)
		}
		for range 250 {
			mustAppend(t, l, call("b")...)
		}
		for l.Head().Seq < 1000 { // no time passes: the kick did it
			synctest.Wait()
		}
		time.Sleep(2 * time.Hour)
		packets, err := l.Packets(ctx, Query{Limit: 1})
		if err != nil || packets[0].Seq != 1001 {
			t.Errorf("first packet after pruning: %v, %v", packets, err)
		}
		mustAppend(t, l, call("c")...)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if seq, _ := l.Tip(); l.Head().Seq != seq {
			t.Errorf("the last head is at %d, the chain at %d", l.Head().Seq, seq)
		}
		r, err := Verify(bytes.NewReader(export(t, l)), Pins{Heads: []chain.Head{l.Head()}})
		if err != nil || r.Pruned != 1000 || r.Segments != 10 {
			t.Errorf("%+v, %v", r, err)
		}
		again := openOn(t, s, Options{SegmentEntries: 100})
		if again.Head() != l.Head() {
			t.Error("another head after a restart")
		}
	})
}

// watched is a ledger that notes from where on it is read.
type watched struct {
	*Ledger
	after chan uint64
}

func (w watched) Packets(ctx context.Context, q Query) ([]Packet, error) {
	w.after <- q.After
	return w.Ledger.Packets(ctx, q)
}

// TestFollow: every packet of the kind comes once and in order, and the others are looked at once.
func TestFollow(t *testing.T) {
	w := watched{open(t, Options{}), make(chan uint64)}
	d := func(kind Kind, n int) Draft { return Draft{Kind: kind, Body: map[string]int{"n": n}} }
	mustAppend(t, w.Ledger, d(KindDrift, 0), d(KindCallRequest, 1), d(KindDrift, 2))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, done := make(chan uint64, 1000), make(chan struct{})
	go func() {
		defer close(done)
		Follow(ctx, w, 1, KindDrift, func(p *Packet) { got <- p.Seq }, func(err error) { t.Error(err) })
	}()
	if from := <-w.after; from != 1 {
		t.Errorf("read from %d on", from)
	}
	if seq := <-got; seq != 3 {
		t.Errorf("packet %d came", seq)
	}
	for n := range 250 { // more than are read at once, between others
		mustAppend(t, w.Ledger, d(KindCallRequest, n), d(KindDrift, n))
	}
	drained := make(chan uint64)
	go func() {
		var last uint64
		for last = range w.after {
		}
		drained <- last
	}()
	for n := range 250 {
		if seq := <-got; seq != uint64(5+2*n) {
			t.Fatalf("packet %d came as number %d", seq, n)
		}
	}
	tip, _ := w.Tip()
	mustAppend(t, w.Ledger, d(KindCallRequest, 0), d(KindDrift, 1))
	if seq := <-got; seq != tip+2 {
		t.Errorf("packet %d came", seq)
	}
	cancel()
	<-done
	close(w.after)
	if last := <-drained; last < tip {
		t.Errorf("read from %d on, when all up to %d had been looked at", last, tip)
	}
}
