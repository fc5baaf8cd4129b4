package journal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func TestMain(m *testing.M) {
	if childMode() {
		return
	}
	goleak.VerifyTestMain(m)
}

func testKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

func options(dir string) Options {
	return Options{Dir: dir, Chain: "node-1", Key: testKey(1), SegmentBytes: 4 * spare}
}

func openWith(t testing.TB, o Options) *Journal {
	t.Helper()
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func ticket(id string) *wire.Ticket {
	return &wire.Ticket{Call: capabilities.CallID(id), Tool: "tool.browser.click", Lane: "lane-1", Args: []byte(`{"pin":"1234"}`), Envelope: []byte("envelope"), Sequence: 7}
}

func answer(text string) *wire.Answer {
	return &wire.Answer{Status: capabilities.StatusOK, Output: []byte(`{"text":"` + text + `"}`), Effect: capabilities.EffectConfirmed}
}

func start(t testing.TB, j *Journal, id string) {
	t.Helper()
	if err := j.Started(context.Background(), ticket(id)); err != nil {
		t.Fatal(err)
	}
}

func finish(t testing.TB, j *Journal, id string) {
	t.Helper()
	if err := j.Finished(capabilities.CallID(id), answer(id)); err != nil {
		t.Fatal(err)
	}
}

func state(j *Journal, id string) wire.JournalState {
	return j.States(context.Background(), &wire.JournalAsk{Calls: []capabilities.CallID{capabilities.CallID(id)}})[0]
}

func wantState(t testing.TB, j *Journal, id string, want wire.CallState) {
	t.Helper()
	if got := state(j, id); got.State != want || got.Call != capabilities.CallID(id) {
		t.Errorf("call %s is %q, want %q", id, got.State, want)
	}
}

func TestStatesOverALife(t *testing.T) {
	o := options(t.TempDir())
	j := openWith(t, o)
	start(t, j, "a")
	start(t, j, "b")
	finish(t, j, "b")
	wantState(t, j, "a", wire.StateRunning)
	wantState(t, j, "b", wire.StateFinished)
	wantState(t, j, "c", wire.StateNeverStarted)
	if got := state(j, "b").Answer; got == nil || string(got.Output) != `{"text":"b"}` {
		t.Errorf("answer %+v", got)
	}
	if err := j.Started(t.Context(), ticket("a")); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
		t.Errorf("a second start: %v", err)
	}
	if err := j.Finished("c", answer("c")); err == nil {
		t.Error("a call that never started finished")
	}
	if _, err := Open(o); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a second process: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Started(t.Context(), ticket("d")); capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
		t.Errorf("started on a closed journal: %v", err)
	}

	j = openWith(t, o)
	wantState(t, j, "a", wire.StateUnknown) // its process is gone
	wantState(t, j, "b", wire.StateFinished)
	wantState(t, j, "c", wire.StateNeverStarted)
	if err := j.Started(t.Context(), ticket("a")); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
		t.Errorf("a second start after a restart: %v", err)
	}
	start(t, j, "e")
}

func TestWhatEarlierVersionsWrote(t *testing.T) {
	o := options(t.TempDir())
	j := openWith(t, o)
	write := func(kind string, fields ...string) {
		t.Helper()
		j.mu.Lock()
		defer j.mu.Unlock()
		if err := j.noteLocked(kind, fields...); err != nil {
			t.Fatal(err)
		}
	}
	ids := []string{"held", "withdrawn", "finished"}
	for _, id := range ids {
		write(KindHeld, id, "tool.browser.click", "lane-1", "12345678", "envelope", "digest", "bot")
	}
	write(KindWithdrawn, "withdrawn")
	write(KindStarted, "finished", "tool.browser.click", "lane-1", "12345678", "envelope", "digest", "bot")
	write(KindFinished, "finished", "ok", "", "confirmed", "digest")
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := Read(o.Dir, o.Chain)
	if err != nil {
		t.Fatal(err)
	}
	if r := log.Records[0]; r.Call != "held" || r.Tool != "tool.browser.click" || r.Lane != "lane-1" || r.Principal != "bot" {
		t.Errorf("%+v", r)
	}
	if r := log.Records[3]; r.Kind != KindWithdrawn || r.Call != "withdrawn" {
		t.Errorf("%+v", r)
	}
	j = openWith(t, o)
	wantState(t, j, "held", wire.StateUnknown)
	wantState(t, j, "withdrawn", wire.StateNeverStarted)
	wantState(t, j, "finished", wire.StateFinished)
	for _, id := range ids {
		if err := j.Started(t.Context(), ticket(id)); capabilities.CodeOf(err) != capabilities.CodeTicketReplayed {
			t.Errorf("%s starts: %v", id, err)
		}
	}
}

func TestNothingReadableOnDisk(t *testing.T) {
	dir := t.TempDir()
	j := openWith(t, options(dir))
	tk := ticket("a")
	tk.Args = []byte(`{"text":"canary-4711"}`)
	if err := j.Started(t.Context(), tk); err != nil {
		t.Fatal(err)
	}
	if err := j.Finished("a", answer("canary-4711")); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("canary")) {
			t.Errorf("%s holds payload", path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestManyAtOnceShareSyncs(t *testing.T) {
	o := inRun(t.TempDir(), "") // so that they wait
	j := openWith(t, o)
	const callers, each = 64, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				id := fmt.Sprintf("c%d-%d", c, i)
				if err := j.Started(context.Background(), ticket(id)); err != nil {
					t.Error(err)
					return
				}
				j.mu.Lock()
				durable := j.durable.seq
				k, _ := j.index.get(capabilities.CallID(id))
				j.mu.Unlock()
				if durable == 0 || k.state != wire.StateRunning {
					t.Error("returned before it was durable")
				}
				if err := j.Finished(capabilities.CallID(id), answer(id)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(j.files) < 2 {
		t.Error("no rotation was exercised")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openWith(t, o)
	if j.tail.seq != 2*callers*each {
		t.Errorf("%d records, want %d", j.tail.seq, 2*callers*each)
	}
}

func TestTornTailAtEveryByte(t *testing.T) {
	base := t.TempDir()
	o := options(base)
	j := openWith(t, o)
	start(t, j, "a")
	finish(t, j, "a")
	before := j.off
	start(t, j, "b")
	after := j.off
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(segmentPath(base, 1))
	if err != nil {
		t.Fatal(err)
	}
	torn := map[string]func(cut int64) []byte{
		"truncated": func(cut int64) []byte { return whole[:cut] },
		"zeroed": func(cut int64) []byte {
			return append(bytes.Clone(whole[:cut]), make([]byte, int64(len(whole))-cut)...)
		},
		"late": func(cut int64) []byte { // the end of the record came to the disk, its beginning did not
			b := bytes.Clone(whole)
			clear(b[before:cut])
			return b
		},
		"garbage": func(cut int64) []byte {
			b := bytes.Clone(whole)
			for i := cut; i < after+100; i++ {
				b[i] ^= 0x5a
			}
			return b
		},
	}
	for name, tear := range torn {
		t.Run(name, func(t *testing.T) {
			for cut := before; cut <= after; cut++ {
				dir := t.TempDir()
				if err := os.WriteFile(segmentPath(dir, 1), tear(cut), 0o600); err != nil {
					t.Fatal(err)
				}
				o.Dir = dir
				j, err := Open(o)
				if err != nil {
					t.Fatalf("cut at %d: %v", cut-before, err)
				}
				wantState(t, j, "a", wire.StateFinished)
				damaged := tear(cut)
				intact := int64(len(damaged)) >= after && bytes.Equal(damaged[:after], whole[:after])
				if got := state(j, "b").State; (got == wire.StateUnknown) != intact || (got == wire.StateNeverStarted) == intact {
					t.Errorf("cut at %d of %d: b is %q", cut-before, after-before, got)
				}
				start(t, j, "c")
				if err := j.Close(); err != nil {
					t.Fatal(err)
				}
				if cut%16 != 0 {
					continue
				}
				if j, err = Open(o); err != nil {
					t.Fatalf("cut at %d, reopened: %v", cut-before, err)
				}
				wantState(t, j, "c", wire.StateUnknown)
				j.Close()
			}
		})
	}
}

func TestDamageElsewhereIsCorrupt(t *testing.T) {
	base := t.TempDir()
	o := options(base)
	j := openWith(t, o)
	for i := 0; len(j.files) < 3; i++ {
		// Not durable one by one: only the bytes matter here.
		j.mu.Lock()
		if err := j.appendLocked(spare, KindStarted, func(b []byte) []byte { return chain.AppendField(b, fmt.Sprint("call", i)) }); err != nil {
			t.Fatal(err)
		}
		j.mu.Unlock()
	}
	if err := j.tick(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(dir string) error{
		"a byte in a full segment": func(dir string) error {
			path := segmentPath(dir, j.files[1].first)
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[500] ^= 1
			return os.WriteFile(path, b, 0o600)
		},
		"a missing segment": func(dir string) error { return os.Remove(segmentPath(dir, j.files[1].first)) },
		"a lost end": func(dir string) error {
			path := segmentPath(dir, j.files[2].first)
			return os.WriteFile(path, make([]byte, 10), 0o600)
		},
		"a strange name": func(dir string) error { return os.WriteFile(filepath.Join(dir, "journal-x.log"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			o.Dir = t.TempDir()
			if err := os.CopyFS(o.Dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			if err := damage(o.Dir); err != nil {
				t.Fatal(err)
			}
			j, err := Open(o)
			if err == nil {
				j.Close()
				t.Fatal("opened")
			}
		})
	}
}

func TestHeads(t *testing.T) {
	o := options(t.TempDir())
	j := openWith(t, o)
	start(t, j, "a")
	finish(t, j, "a")
	if err := j.tick(); err != nil {
		t.Fatal(err)
	}
	head := j.Head()
	if head.Seq != 2 || head.Hash != j.tail.hash || head.Verify() != nil {
		t.Errorf("head %+v", head)
	}
	j.SetKey(testKey(9))
	if err := j.tick(); err != nil {
		t.Fatal(err)
	}
	if j.Head().Key != chain.PublicKey(testKey(9)) {
		t.Error("the head is still signed by the old key")
	}

	gateway := func(seq uint64, hash byte) chain.Head {
		return chain.SignHead(testKey(2), chain.Head{Chain: "gateway-1", Seq: seq, Hash: chain.Hash{hash}, Time: 1})
	}
	if err := j.KeepGatewayHead(gateway(5, 1)); err != nil {
		t.Fatal(err)
	}
	forged := gateway(6, 1)
	forged.Seq++
	for name, bad := range map[string]chain.Head{
		"shorter": gateway(4, 1), "another": gateway(5, 2), "forged": forged,
		"our own": chain.SignHead(testKey(2), chain.Head{Chain: "node-1", Seq: 99}),
	} {
		if err := j.KeepGatewayHead(bad); capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := j.tick(); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openWith(t, o)
	if got, ok := j.GatewayHead("gateway-1"); !ok || got != gateway(5, 1) {
		t.Errorf("kept %+v", got)
	}
	if j.Head().Seq != 2 {
		t.Errorf("head %+v", j.Head())
	}
}

func TestRunSyncsAndSignsWhatDidNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openWith(t, options(t.TempDir()))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Run(ctx) }()
		start(t, j, "a")
		finish(t, j, "a")
		time.Sleep(1500 * time.Millisecond) // the bubble's clock
		if got := j.Head(); got.Seq != 2 {
			t.Errorf("head %+v", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDigestKeyRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "digest.key")
	now := time.Now()
	m, err := openMACKey(path, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	first := m.digest("a", "args", []byte("1234"))
	again, err := openMACKey(path, m.now)
	if err != nil || !bytes.Equal(again.digest("a", "args", []byte("1234")), first) {
		t.Error("another key after a restart")
	}
	if bytes.Equal(m.digest("b", "args", []byte("1234")), first) || bytes.Equal(m.digest("a", "output", []byte("1234")), first) {
		t.Error("one digest for two things")
	}
	now = now.Add(macLife + time.Minute)
	if err := m.rotate(); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(m.digest("a", "args", []byte("1234")), first) {
		t.Error("the key did not change")
	}
}

func FuzzNextRecord(f *testing.F) {
	record := append(make([]byte, recordHead), chain.AppendField(chain.AppendEntry(nil, 3, chain.Hash{1}, 5, KindStarted), "call-1")...)
	sealRecord(record)
	f.Add(record)
	f.Add(append(bytes.Clone(record), make([]byte, 20)...))
	f.Add(record[:len(record)-1])
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		entry, payload, rest, err := nextRecord(b)
		if err != nil {
			if entry.Seq != 0 || entry.Fields != nil || payload != nil || rest != nil {
				t.Error("a value came with an error")
			}
			if errors.Is(err, errTorn) && len(trimZeros(b)) == 0 {
				t.Error("zeros are an end, not torn")
			}
			return
		}
		p := chain.AppendEntry(make([]byte, recordHead), entry.Seq, entry.Prev, entry.Time, entry.Kind)
		for _, field := range entry.Fields {
			p = chain.AppendField(p, field)
		}
		sealRecord(p)
		if !bytes.Equal(p, b[:len(b)-len(rest)]) || !bytes.Equal(p[recordHead:], payload) {
			t.Error("a record does not survive the round trip")
		}
	})
}

func BenchmarkStarted(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		f, err := createSegment(b.TempDir(), 1, 4<<20)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		record := make([]byte, 300)
		for i := 0; b.Loop(); i++ {
			if _, err := f.WriteAt(record, int64(i%10000)*300); err != nil {
				b.Fatal(err)
			}
			if err := syncData(f); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, at := range []struct {
		run     string
		callers int
	}{{"one", 1}, {"one", 64}, {"", 1}, {"", 64}} {
		callers := at.callers
		b.Run(fmt.Sprintf("waits=%v/callers=%d", at.run == "", callers), func(b *testing.B) {
			o := inRun(b.TempDir(), at.run)
			o.SegmentBytes = 4 << 20
			j := openWith(b, o)
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < b.N; i += callers {
						start(b, j, fmt.Sprint("call-", i))
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// How a call failed is known to the next process too; what a call gave is not.
func TestFailuresOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	j := openWith(t, options(dir))
	for _, id := range []string{"good", "bad"} {
		start(t, j, id)
	}
	if err := j.Finished("good", answer("good")); err != nil {
		t.Fatal(err)
	}
	if err := j.Finished("bad", &wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeDeadlineExceeded, Effect: capabilities.EffectPartial}); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openWith(t, options(dir))
	if s := state(j, "good"); s.State != wire.StateFinished || s.Answer != nil {
		t.Errorf("%+v", s)
	}
	if s := state(j, "bad"); s.State != wire.StateFinished || s.Answer == nil || s.Answer.Code != capabilities.CodeDeadlineExceeded || s.Answer.Effect != capabilities.EffectPartial {
		t.Errorf("%+v", s)
	}
}

// TestAStateMayBeSentWhileCallsFail: the answer of a failed call is its asker's own. Encoding a
// frame may write into it while other calls fail in the same way.
func TestAStateMayBeSentWhileCallsFail(t *testing.T) {
	j := openWith(t, options(t.TempDir()))
	failed := func(id string) {
		start(t, j, id)
		if err := j.Finished(capabilities.CallID(id), &wire.Answer{Status: capabilities.StatusError, Code: capabilities.CodeDeadlineExceeded}); err != nil {
			t.Error(err)
		}
	}
	failed("first")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			failed(fmt.Sprint("call-", i))
		}
	}()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		s := state(j, "first")
		s.Answer.Action.Key = "of-another-version"
		if err := wire.Write(io.Discard, s.Answer); err != nil {
			t.Fatal(err)
		}
	}
	if s := state(j, "first"); s.Answer == nil || s.Answer.Action.Key != "" {
		t.Errorf("%+v", s)
	}
}

// The first write into a page of a segment is the whole page: else the kernel reads it
// from the disk before, if it has dropped the zeros.
func TestPagesAreFirstWrittenWhole(t *testing.T) {
	for _, start := range []int64{0, 1, pageSize - 1, pageSize, 5*pageSize + 77} {
		off, touched := start, (start+pageSize-1)/pageSize // pages before this one have been written to
		for i := range 200 {
			record := bytes.Repeat([]byte{byte(i + 1)}, 1+i*53%(maxRecord+recordHead))
			whole := wholePages(slices.Clone(record), off)
			if !bytes.HasPrefix(whole, record) || len(trimZeros(whole)) != len(record) {
				t.Fatalf("at %d a record of %d bytes became %d others", off, len(record), len(whole))
			}
			end := off + int64(len(whole))
			if last := (off + int64(len(record)) - 1) / pageSize; last >= touched {
				if end != (last+1)*pageSize {
					t.Fatalf("at %d, %d bytes: written up to %d, inside page %d, which had none", off, len(record), end, last)
				}
				touched = last + 1
			} else if len(whole) != len(record) {
				t.Fatalf("at %d, %d bytes: %d zeros for nothing", off, len(record), len(whole)-len(record))
			}
			off += int64(len(record))
		}
	}
}
