package chain

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func testKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// The layouts are a promise to every ledger ever written: these values may never
// change.
func TestKnownValues(t *testing.T) {
	if got, want := Genesis("gateway-1"), Sum([]byte("\x00\x00\x00\x12handrail/genesis/1\x00\x00\x00\x09gateway-1")); got != want {
		t.Errorf("genesis is %v, want %v", got, want)
	}
	pre := AppendField(AppendEntry(nil, 7, Hash{1}, 1_700_000_000_000_000, "tool.call.request"), "call-1")
	want := "\x00\x00\x00\x10handrail/entry/1" +
		"\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x00\x00\x00\x20\x01" + string(make([]byte, 31)) +
		"\x00\x00\x00\x08\x00\x06\x0a\x24\x18\x1e\x40\x00" +
		"\x00\x00\x00\x11tool.call.request" +
		"\x00\x00\x00\x06call-1"
	if string(pre) != want {
		t.Errorf("preimage is\n%q, want\n%q", pre, want)
	}
}

func zeros(n int) string { return hex.EncodeToString(make([]byte, n)) }

func TestFieldsDoNotRunTogether(t *testing.T) {
	if Sum(AppendField(AppendField(nil, "ab"), "c")) == Sum(AppendField(AppendField(nil, "a"), "bc")) {
		t.Error("two different lists have one hash")
	}
	if Genesis("a") == Genesis("b") {
		t.Error("two chains begin alike")
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	buf := make([]byte, 0, 512)
	var h Hash
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendField(AppendEntry(buf[:0], 1, h, 2, "kind"), "field")
		h = Sum(buf)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWalker(t *testing.T) {
	link := func(w *Walker, time int64) (uint64, Hash, int64, Hash) {
		return w.Next, w.Prev, time, Sum(AppendEntry(nil, w.Next, w.Prev, time, "k"))
	}
	w := NewWalker("c")
	for i := range 3 {
		if err := w.Step(link(&w, int64(i))); err != nil {
			t.Fatal(err)
		}
	}
	for name, step := range map[string]func(w *Walker) error{
		"gap":      func(w *Walker) error { s, p, tm, h := link(w, 5); return w.Step(s+1, p, tm, h) },
		"again":    func(w *Walker) error { s, p, tm, h := link(w, 5); return w.Step(s-1, p, tm, h) },
		"unlinked": func(w *Walker) error { s, _, tm, h := link(w, 5); return w.Step(s, Hash{9}, tm, h) },
		"older":    func(w *Walker) error { s, p, _, h := link(w, 5); return w.Step(s, p, 1, h) },
		"segment":  func(w *Walker) error { return w.Skip(Segment{First: 4, Last: 3, Prev: w.Prev, Since: 5, Until: 6}) },
	} {
		c := w
		if err := step(&c); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := w.Skip(Segment{First: 4, Last: 9, Prev: w.Prev, Hash: Hash{3}, Since: 5, Until: 6}); err != nil {
		t.Fatal(err)
	}
	if err := w.Step(10, Hash{3}, 6, Hash{4}); err != nil {
		t.Error(err)
	}
}

func TestSignaturesBindEverything(t *testing.T) {
	key := testKey(1)
	head := SignHead(key, Head{Chain: "c", Seq: 3, Hash: Hash{1}, Time: 4})
	if err := head.Verify(); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(h *Head){
		func(h *Head) { h.Chain = "d" }, func(h *Head) { h.Seq++ }, func(h *Head) { h.Hash[0]++ },
		func(h *Head) { h.Time++ }, func(h *Head) { h.Key = PublicKey(testKey(2)) }, func(h *Head) { h.Sig[0]++ },
	} {
		c := head
		if change(&c); c.Verify() == nil {
			t.Errorf("head change %d passes", i)
		}
	}
	seg := SignSegment(key, "c", Segment{First: 1, Last: 3, Prev: Hash{1}, Hash: Hash{2}, Since: 1, Until: 2})
	if err := seg.Verify("c"); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(s *Segment){
		func(s *Segment) { s.First++ }, func(s *Segment) { s.Last++ }, func(s *Segment) { s.Prev[0]++ }, func(s *Segment) { s.Hash[0]++ },
		func(s *Segment) { s.Since++ }, func(s *Segment) { s.Until++ }, func(s *Segment) { s.Key = PublicKey(testKey(2)) },
	} {
		c := seg
		if change(&c); c.Verify("c") == nil {
			t.Errorf("segment change %d passes", i)
		}
	}
	if seg.Verify("d") == nil {
		t.Error("a segment moves between chains")
	}
	w := SignWitness(testKey(2), Witness{Head: head, By: "g", At: 5, Time: 6})
	if err := w.Verify(); err != nil {
		t.Fatal(err)
	}
	for i, change := range []func(w *Witness){
		func(w *Witness) { w.Head.Seq++ }, func(w *Witness) { w.Head.Sig[3]++ }, func(w *Witness) { w.By = "h" },
		func(w *Witness) { w.At++ }, func(w *Witness) { w.Time++ }, func(w *Witness) { w.Key = PublicKey(key) },
	} {
		c := w
		if change(&c); c.Verify() == nil {
			t.Errorf("witness change %d passes", i)
		}
	}
}

func TestFollows(t *testing.T) {
	h := Head{Chain: "c", Seq: 5, Hash: Hash{1}}
	for name, c := range map[string]struct {
		next Head
		ok   bool
	}{
		"same": {h, true}, "longer": {Head{Chain: "c", Seq: 6, Hash: Hash{2}}, true}, "shorter": {Head{Chain: "c", Seq: 4, Hash: Hash{1}}, false},
		"another": {Head{Chain: "c", Seq: 5, Hash: Hash{2}}, false}, "other chain": {Head{Chain: "d", Seq: 9}, false},
	} {
		if err := h.Follows(c.next); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextForms(t *testing.T) {
	h := SignHead(testKey(1), Head{Chain: "c", Seq: 1 << 53, Time: -1})
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var again Head
	if err := json.Unmarshal(b, &again); err != nil || again != h {
		t.Errorf("%+v, %v", again, err)
	}
	for _, bad := range []string{`{"hash":"00"}`, `{"key":"zz"}`, `{"sig":"` + zeros(63) + `"}`, `{"hash":"` + zeros(31) + `zz"}`} {
		if err := json.Unmarshal([]byte(bad), new(Head)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Entry{Seq: rapid.Uint64().Draw(t, "seq"), Time: rapid.Int64().Draw(t, "time"), Kind: rapid.String().Draw(t, "kind")}
		fields := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 40), 0, 5).Draw(t, "fields")
		b := AppendEntry(nil, e.Seq, e.Prev, e.Time, e.Kind)
		for _, f := range fields {
			b = AppendField(b, f)
		}
		got, err := DecodeEntry(b, 5)
		if err != nil || got.Seq != e.Seq || got.Time != e.Time || got.Kind != e.Kind || len(got.Fields) != len(fields) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i := range fields {
			if !bytes.Equal(got.Fields[i], fields[i]) {
				t.Fatalf("field %d", i)
			}
		}
	})
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(AppendField(AppendEntry(nil, 3, Hash{1}, 4, "kind"), "field"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEntry(b, 4)
		if err != nil {
			if e.Seq != 0 || e.Kind != "" || e.Fields != nil {
				t.Error("a value came with an error")
			}
			return
		}
		again := AppendEntry(nil, e.Seq, e.Prev, e.Time, e.Kind)
		for _, field := range e.Fields {
			again = AppendField(again, field)
		}
		if !bytes.Equal(again, b) || len(e.Fields) > 4 {
			t.Error("does not survive the round trip")
		}
	})
}

func FuzzDecodeHead(f *testing.F) {
	f.Add(SignHead(testKey(1), Head{Chain: "c", Seq: 3, Hash: Hash{1}, Time: 4}).Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := DecodeHead(b)
		if err != nil {
			if h != (Head{}) {
				t.Error("a value came with an error")
			}
			return
		}
		if !bytes.Equal(h.Encode(), b) {
			t.Error("does not survive the round trip")
		}
	})
}
