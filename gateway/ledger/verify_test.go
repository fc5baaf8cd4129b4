package ledger

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/store"
)

func export(t testing.TB, l *Ledger) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := l.Export(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func isCorrupt(err error) bool { return capabilities.CodeOf(err) == capabilities.CodeLedgerCorrupt }

// filled is a small ledger with everything in it: calls, a node's head, and if
// asked for pruned segments.
func filled(t testing.TB, prune bool) (*Ledger, chain.Head) {
	t.Helper()
	call := func(id string) []Draft {
		return []Draft{{Kind: KindCallRequest, Call: capabilities.CallID(id)}, {Kind: KindCallResult, Call: capabilities.CallID(id), Body: map[string]string{"html": "<&>"}}}
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := open(t, Options{SegmentEntries: 3, Now: func() time.Time { now = now.Add(time.Second); return now }})
	ctx := context.Background()
	for i := range 4 {
		mustAppend(t, l, call(fmt.Sprint("call-", i))...)
	}
	if err := l.Sign(ctx); err != nil {
		t.Fatal(err)
	}
	early := l.Head()
	node := chain.SignHead(testKey(5), chain.Head{Chain: "node-1", Seq: 3, Hash: chain.Hash{7}, Time: 1})
	if err := l.KeepNodeHead(ctx, "node-1", node); err != nil {
		t.Fatal(err)
	}
	if prune {
		if err := l.seal(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Prune(ctx, now); err != nil || n != 6 {
			t.Fatalf("pruned %d, %v", n, err)
		}
	}
	mustAppend(t, l, call("call-last")...)
	if err := l.Sign(ctx); err != nil {
		t.Fatal(err)
	}
	return l, early
}

func TestVerifyGood(t *testing.T) {
	for _, prune := range []bool{false, true} {
		l, early := filled(t, prune)
		b := export(t, l)
		pins := Pins{Keys: []chain.Key{chain.PublicKey(testKey(1))}, Heads: []chain.Head{early, l.Head()}, Chain: "gateway-1"}
		r, err := Verify(bytes.NewReader(b), pins)
		if err != nil {
			t.Fatalf("prune %v: %v\n%s", prune, err, b)
		}
		seq, hash := l.Tip()
		if r.Last != seq || r.Head.Hash != hash || !r.Pinned || r.Heads != 2 || len(r.Nodes) != 1 || r.Packets+r.Pruned != seq {
			t.Errorf("report %+v", r)
		}
		if prune && (r.Pruned != 6 || r.Segments != 2 || r.First != 7 || r.Kinds[KindPruned] != 2) {
			t.Errorf("report %+v", r)
		}
		if _, err := Verify(bytes.NewReader(b), Pins{}); err != nil {
			t.Errorf("without pins: %v", err)
		}
	}
	empty := open(t, Options{})
	if r, err := Verify(bytes.NewReader(export(t, empty)), Pins{}); err != nil || r.Last != 0 {
		t.Errorf("an empty ledger: %+v, %v", r, err)
	}
}

func TestVerifyFindsEveryFlippedByte(t *testing.T) {
	for _, prune := range []bool{false, true} {
		t.Run(fmt.Sprint("prune=", prune), func(t *testing.T) {
			l, _ := filled(t, prune)
			b := export(t, l)
			for i, c := range b {
				bit := []byte{0x01, 0x80}[i%2]
				if c|0x20 >= 'a' && c|0x20 <= 'z' {
					bit = 0x20 // the case of a letter, which JSON and hex readers overlook
				}
				b[i] ^= bit
				if _, err := Verify(bytes.NewReader(b), Pins{}); err == nil {
					t.Fatalf("byte %d changed by %#x passes: %q", i, bit, b[max(0, i-20):min(len(b), i+20)])
				}
				b[i] ^= bit
			}
		})
	}
}

// reseal writes a new, good end line for changed lines, as somebody would who
// has the gateway's key but must not change the past.
func reseal(t testing.TB, lines [][]byte, key byte) []byte {
	t.Helper()
	l := &Ledger{chain: "gateway-1", key: testKey(key), now: time.Now}
	var out bytes.Buffer
	e := newExporter(&out)
	for _, line := range lines[:len(lines)-1] {
		e.sum.Write(line)
		e.lines++
		e.w.Write(line)
	}
	if err := l.end(e); err != nil {
		t.Fatal(err)
	}
	if err := e.w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestVerifyFindsChangesUnderAGoodEnd(t *testing.T) {
	l, early := filled(t, false)
	lines := slices.Collect(bytes.Lines(export(t, l)))
	isPacket := func(line []byte) bool { return bytes.Contains(line, []byte(`"type":"packet"`)) }
	first := slices.IndexFunc(lines, isPacket)
	n := len(lines) - first - 3 // packets
	headAt := len(lines) - 2
	other := newHead(t, l, 9)
	shorter := chain.SignHead(testKey(1), early)
	for name, c := range map[string]struct {
		change func(lines [][]byte) [][]byte
		key    byte
		pins   Pins
	}{
		"dropped":    {func(l [][]byte) [][]byte { return slices.Delete(l, first+3, first+4) }, 1, Pins{}},
		"first gone": {func(l [][]byte) [][]byte { return slices.Delete(l, first, first+1) }, 1, Pins{}},
		"reordered":  {func(l [][]byte) [][]byte { l[first+3], l[first+4] = l[first+4], l[first+3]; return l }, 1, Pins{}},
		"inserted":   {func(l [][]byte) [][]byte { return slices.Insert(l, first+3, l[first+2]) }, 1, Pins{}},
		"last gone":  {func(l [][]byte) [][]byte { return slices.Delete(l, first+n-1, first+n) }, 1, Pins{}},
		"no head":    {func(l [][]byte) [][]byte { return slices.Delete(l, headAt, headAt+1) }, 1, Pins{}},
		"two heads":  {func(l [][]byte) [][]byte { return slices.Insert(l, headAt, l[headAt]) }, 1, Pins{}},
		"truncated, with an earlier head": {func(ls [][]byte) [][]byte {
			// A chain that ended earlier is good in itself: only a later head tells.
			kept := slices.Clone(ls[:first+int(early.Seq)])
			return append(kept, encodeLine(t, headLine{"head", shorter}), ls[len(ls)-1])
		}, 1, Pins{Heads: []chain.Head{l.Head()}}},
		"another history": {func(l [][]byte) [][]byte { return l }, 1, Pins{Heads: []chain.Head{other}}},
		"wrong key":       {func(l [][]byte) [][]byte { return l }, 1, Pins{Keys: []chain.Key{chain.PublicKey(testKey(2))}}},
		"end by another":  {func(l [][]byte) [][]byte { return l }, 2, Pins{}},
		"wrong chain":     {func(l [][]byte) [][]byte { return l }, 1, Pins{Chain: "gateway-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := reseal(t, c.change(slices.Clone(lines)), c.key)
			if _, err := Verify(bytes.NewReader(changed), c.pins); !isCorrupt(err) {
				t.Errorf("err = %v", err)
			}
			if name == "truncated, with an earlier head" {
				if _, err := Verify(bytes.NewReader(changed), Pins{}); err != nil {
					t.Errorf("the test's own truncation is wrong: %v", err)
				}
			}
		})
	}
	if _, err := Verify(bytes.NewReader(reseal(t, lines, 1)), Pins{}); err != nil {
		t.Errorf("unchanged and resealed: %v", err)
	}
	// Cut anywhere, a line or a byte at a time.
	whole := bytes.Join(lines, nil)
	for i := range lines {
		if _, err := Verify(bytes.NewReader(bytes.Join(lines[:i], nil)), Pins{}); err == nil {
			t.Errorf("cut after line %d passes", i)
		}
	}
	if _, err := Verify(bytes.NewReader(whole[:len(whole)-1]), Pins{}); err == nil {
		t.Error("without the last byte it passes")
	}
}

func TestVerifyRefusesWhatIsNoExport(t *testing.T) {
	for _, text := range []string{"", "hello\n", "{}\n", `{"type":"end"}` + "\n", `{"type":"header","format":"other","chain":"x","keys":["` + strings.Repeat("00", 32) + `"]}` + "\n"} {
		if _, err := Verify(strings.NewReader(text), Pins{}); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%q: %v", text, err)
		}
	}
	endless := strings.NewReader(strings.Repeat("x", 2*maxLine))
	if _, err := Verify(endless, Pins{}); err == nil || endless.Len() == 0 {
		t.Errorf("a line without end was read to its end: %v", err)
	}
}

// newHead is a good head of another history of the same chain, as long as l's.
func newHead(t testing.TB, l *Ledger, hash byte) chain.Head {
	t.Helper()
	seq, _ := l.Tip()
	return chain.SignHead(testKey(1), chain.Head{Chain: "gateway-1", Seq: seq, Hash: chain.Hash{hash}})
}

func encodeLine(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := appendLine(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestPrunedByHandIsFound(t *testing.T) {
	for name, sql := range map[string]string{
		"packets":           "DELETE FROM packet_store WHERE seq <= 3",
		"packets and sums":  "DELETE FROM ledger_segment WHERE first = 1",
		"a segment, marked": "UPDATE ledger_segment SET pruned = 1 WHERE first = 4",
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := filled(t, name == "packets and sums")
			if err := l.seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := l.store.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(sql); return err }); err != nil {
				t.Fatal(err)
			}
			if name == "a segment, marked" {
				// As Prune would have left it, but for the packet that says so.
				for _, s := range []string{"UPDATE ledger_segment SET pruned = 1", "DELETE FROM packet_store WHERE seq <= 9"} {
					if err := l.store.Write(t.Context(), func(tx *store.Tx) error { _, err := tx.Exec(s); return err }); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := Verify(bytes.NewReader(export(t, l)), Pins{}); !isCorrupt(err) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestOpenFindsACutOrChangedEnd(t *testing.T) {
	for name, change := range map[string]string{
		"cut":                 "DELETE FROM packet_store WHERE seq >= 20",
		"signed entry":        "UPDATE packet_store SET kind = 'tool.call.failed' WHERE seq = 20",
		"after the signature": "UPDATE packet_store SET node_id = 'x' WHERE seq = 22",
		"missing inside":      "DELETE FROM packet_store WHERE seq = 22",
		"head dropped":        "DELETE FROM packet_store WHERE seq = 3; DELETE FROM ledger_head",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s := openStore(t, path)
			l := openOn(t, s, Options{})
			for i := range 5 {
				mustAppend(t, l, call(fmt.Sprint(i))...)
			}
			if err := l.Sign(t.Context()); err != nil {
				t.Fatal(err)
			}
			mustAppend(t, l, call("late")...)
			if _, err := Open(t.Context(), Options{Store: s, Chain: "gateway-1", Key: testKey(1)}); err != nil {
				t.Fatalf("untouched: %v", err)
			}
			err := s.Write(t.Context(), func(tx *store.Tx) error {
				for _, stmt := range append([]string{"DROP TRIGGER IF EXISTS packet_store_immutable"}, strings.Split(change, ";")...) {
					if _, err := tx.Exec(stmt); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), Options{Store: s, Chain: "gateway-1", Key: testKey(1)}); !isCorrupt(err) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// A packet that is written is changed by nobody (S4-32).
func TestPacketsAreImmutable(t *testing.T) {
	l := open(t, Options{})
	mustAppend(t, l, call("a")...)
	err := l.store.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec("UPDATE packet_store SET kind = 'x'")
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("err = %v", err)
	}
}

func TestNodeHeads(t *testing.T) {
	l := open(t, Options{})
	head := func(seq uint64, hash byte) chain.Head {
		return chain.SignHead(testKey(5), chain.Head{Chain: "node-1", Seq: seq, Hash: chain.Hash{hash}})
	}
	for _, h := range []chain.Head{head(3, 1), head(3, 1), head(8, 2)} {
		if err := l.KeepNodeHead(t.Context(), "node-1", h); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range []chain.Head{head(7, 3), head(8, 3)} {
		if err := l.KeepNodeHead(t.Context(), "node-1", h); !isCorrupt(err) {
			t.Errorf("%d: %v", i, err)
		}
	}
	forged := head(9, 1)
	forged.Seq++
	if err := l.KeepNodeHead(t.Context(), "node-1", forged); err == nil {
		t.Error("a forged head was kept")
	}
	if err := l.KeepNodeHead(t.Context(), "node-2", head(9, 1)); err == nil {
		t.Error("another node's head was kept")
	}
	packets, err := l.Packets(t.Context(), Query{Kind: "node.", Node: "node-1"})
	if err != nil || len(packets) != 2 || packets[0].Kind != KindNodeRegressed {
		t.Errorf("packets %v, %v", packets, err)
	}
	if kept, err := l.nodeHead(l.store.Read(), "node-1"); err != nil || kept != head(8, 2) {
		t.Errorf("kept %+v, %v", kept, err)
	}
}

func FuzzVerify(f *testing.F) {
	l := open(f, Options{})
	f.Add(export(f, l))
	mustAppend(f, l, Draft{Kind: "x.y", Call: "c"})
	good := export(f, l)
	f.Add(good)
	f.Add([]byte(`{"type":"header"}` + "\n"))
	keys := []chain.Key{chain.PublicKey(testKey(1))}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Verify(bytes.NewReader(b), Pins{Keys: keys})
		if err != nil {
			if r.Chain != "" || r.Kinds != nil {
				t.Error("a report came with an error")
			}
			return
		}
		// Only what the key has signed passes, and it has signed ledgers of one
		// packet at most.
		if r.Chain != "gateway-1" || !r.Pinned || r.Last > 1 || len(b) > len(good) {
			t.Errorf("passed: %s", b)
		}
	})
}
