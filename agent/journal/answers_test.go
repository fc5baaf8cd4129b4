package journal

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

func TestRetention(t *testing.T) {
	o := options(t.TempDir())
	o.Segments = 2
	now := time.Now()
	o.Now = func() time.Time { return now }
	j := openWith(t, o)
	start(t, j, "first")
	for i := 0; j.files[0].first == 1; i++ {
		j.mu.Lock()
		call := capabilities.CallID(fmt.Sprint("call", i))
		if err := j.appendLocked(spare, KindStarted, func(b []byte) []byte { return chain.AppendField(b, call) }); err != nil {
			t.Fatal(err)
		}
		j.index.set(call, known{state: wire.StateRunning, segment: j.files[len(j.files)-1].first})
		j.mu.Unlock()
	}
	if firsts, err := segments(o.Dir); err != nil || len(firsts) != 2 {
		t.Fatalf("segments %v, %v", firsts, err)
	}
	wantState(t, j, "first", wire.StateUnknown) // it cannot tell any more
	now = now.Add(farBack + time.Hour)
	wantState(t, j, "never", wire.StateNeverStarted) // it reaches back far enough
	tail := j.tail
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j = openWith(t, o); j.tail != tail {
		t.Errorf("tail %+v, want %+v", j.tail, tail)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	o := options(t.TempDir())
	now := time.Now()
	o.Now = func() time.Time { return now }
	o.AnswerBytes = 1200
	j := openWith(t, o)
	for i := range 10 {
		id := fmt.Sprint("c", i)
		start(t, j, id)
		finish(t, j, id)
	}
	if j.answers.bytes > o.AnswerBytes || len(j.answers.at) != keptBy(j) {
		t.Errorf("%d bytes in %d answers, %d of them found", j.answers.bytes, keptBy(j), len(j.answers.at))
	}
	if state(j, "c9").Answer == nil || state(j, "c0").Answer != nil {
		t.Error("the newest must be kept and the oldest must go")
	}
	now = now.Add(time.Hour)
	if got := state(j, "c9"); got.Answer != nil || got.State != wire.StateFinished {
		t.Errorf("after the time: %+v", got)
	}
}

// keptBy is how many answers lie in blocks.
func keptBy(j *Journal) (n int) {
	for _, b := range j.answers.blocks {
		n += len(b.kept) - b.gone
	}
	return n
}

// Answers of all sizes come back as they were, whichever blocks they lie in, and go
// in the order in which they came.
func TestAnswersInManyBlocks(t *testing.T) {
	now := time.Now()
	a := answers{limit: 2 << 20, ttl: time.Minute}
	id := func(i int) capabilities.CallID { return capabilities.CallID(fmt.Sprint("c", i)) }
	whole := func(i int) *wire.Answer {
		return answer(strings.Repeat(fmt.Sprint(i, " "), 1+i*i%977*40))
	}
	const n = 300
	for i := range n {
		frame, err := wire.Encode(whole(i))
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second / 10)
		a.add(id(i), frame, now)
		clear(frame)
	}
	if len(a.blocks) < 3 || a.bytes > a.limit || a.gone == 0 {
		t.Errorf("%d bytes in %d blocks, %d gone", a.bytes, len(a.blocks), a.gone)
	}
	held := func() (first int) {
		a.drop(now)
		first = n - len(a.at)
		for i := range n {
			if got := a.get(id(i), now); i < first && got != nil || i >= first && !reflect.DeepEqual(got, whole(i)) {
				t.Fatalf("answer %d of %d, the first held %d: %.80v", i, n, first, got)
			}
		}
		return first
	}
	before := held()
	now = now.Add(59 * time.Second)
	if after := held(); after <= before || after >= n {
		t.Errorf("the first held is %d, and was %d", after, before)
	}
	now = now.Add(time.Second)
	if held() != n || a.bytes != 0 || a.at != nil || len(a.blocks) != 0 {
		t.Errorf("%d bytes are left", a.bytes)
	}
}

// The map of calls holds nothing that the collector must look at.
func TestCallsAreNoWorkForTheCollector(t *testing.T) {
	for _, of := range []any{callKey{}, entry{}, block{}.kept, location{}} {
		var look func(reflect.Type)
		look = func(x reflect.Type) {
			switch x.Kind() {
			case reflect.Struct:
				for i := range x.NumField() {
					look(x.Field(i).Type)
				}
			case reflect.Array:
				look(x.Elem())
			case reflect.String, reflect.Slice, reflect.Pointer, reflect.Map, reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
				t.Errorf("%T holds a %s", of, x)
			}
		}
		if x := reflect.TypeOf(of); x.Kind() == reflect.Slice {
			look(x.Elem())
		} else {
			look(x)
		}
	}
}

// BenchmarkManyKept is a call of a node that has answered a hundred thousand lately.
func BenchmarkManyKept(b *testing.B) {
	o := options(b.TempDir())
	o.SegmentBytes, o.Segments = 4<<20, 8
	j := openWith(b, o)
	one := func(i int) {
		id := capabilities.CallID(fmt.Sprint("call-", i))
		j.index.set(id, known{state: wire.StateRunning, segment: 1})
		if err := j.Finished(id, answer("x")); err != nil {
			b.Fatal(err)
		}
	}
	const many = 150_000
	for i := range many {
		one(i)
	}
	b.ReportAllocs()
	for i := many; b.Loop(); i++ {
		one(i)
	}
	began := time.Now()
	runtime.GC()
	b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/collection")
}
