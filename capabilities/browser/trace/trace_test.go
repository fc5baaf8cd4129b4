package trace

import (
	"errors"
	"strings"
	"testing"
)

const (
	named  = `{"ph":"M","name":"thread_name","pid":7,"tid":1,"args":{"name":"CrRendererMain"}}`
	helper = `{"ph":"M","name":"thread_name","pid":7,"tid":2,"args":{"name":"ThreadPoolForegroundWorker"}}`
)

func trace(events ...string) string {
	return `{"metadata":{"a":[1]},"traceEvents":[` + strings.Join(events, ",") + `]}`
}

// Time in an inner event is counted once, a script has what it caused, and a long task names what
// took most of it; other threads do not count.
func TestSummary(t *testing.T) {
	s, err := Read(strings.NewReader(trace(named, helper,
		`{"ph":"X","name":"RunTask","pid":7,"tid":1,"ts":1000000,"dur":120000}`,
		`{"ph":"X","name":"FunctionCall","pid":7,"tid":1,"ts":1010000,"dur":90000,"args":{"data":{"url":"https://a.example/app.js","functionName":"draw","lineNumber":12}}}`,
		`{"ph":"X","name":"Layout","pid":7,"tid":1,"ts":1020000,"dur":30000,"args":{"beginData":{"frame":"F"}}}`,
		`{"ph":"X","name":"RunTask","pid":7,"tid":1,"ts":1130000,"dur":20000}`,
		`{"ph":"X","name":"MinorGC","pid":7,"tid":1,"ts":1131000,"dur":5000}`,
		`{"ph":"X","name":"RunTask","pid":7,"tid":2,"ts":1000000,"dur":900000}`,
		`{"ph":"I","name":"firstPaint","pid":7,"tid":1,"ts":1}`,
	)))
	if err != nil {
		t.Fatal(err)
	}
	if s.Busy != 140 || s.Blocking != 70 || s.Long != 1 || s.Span != 900 || s.Cut {
		t.Errorf("%+v", s)
	}
	want := []Spent{{"scripting", 60}, {"other", 45}, {"rendering", 30}, {"garbage collection", 5}}
	if len(s.Kinds) != len(want) {
		t.Fatalf("%+v", s.Kinds)
	}
	for i, k := range want {
		if s.Kinds[i] != k {
			t.Errorf("%d: %+v, want %+v", i, s.Kinds[i], k)
		}
	}
	if len(s.Scripts) != 1 || s.Scripts[0] != (Spent{"https://a.example/app.js", 90}) {
		t.Errorf("%+v", s.Scripts)
	}
	if len(s.Tasks) != 1 || s.Tasks[0] != (Task{0, 120, "draw https://a.example/app.js:12"}) {
		t.Errorf("%+v", s.Tasks)
	}
}

func TestNoTraceIsRefused(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"traceEvents":{}}`, `{"traceEvents":[{"ts":"x"}]}`, `{"traceEvents":[{]`} {
		if s, err := Read(strings.NewReader(text)); !errors.Is(err, ErrNoTrace) {
			t.Errorf("%q: %+v, %v", text, s, err)
		}
	}
}

// A trace that is longer than what is read is summed up so far, and says so.
func TestLongTraceIsCut(t *testing.T) {
	one := `{"ph":"X","name":"RunTask","pid":7,"tid":1,"ts":1,"dur":1},`
	s, err := Read(strings.NewReader(`{"traceEvents":[` + named + "," + strings.Repeat(one, MaxEvents+1) + `{}]}`))
	if err != nil || !s.Cut {
		t.Errorf("%+v %v", s, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(trace(named, `{"ph":"X","name":"FunctionCall","pid":7,"tid":1,"ts":10,"dur":90000,"args":{"data":{"url":"u"}}}`))
	f.Add(`{"traceEvents":[{"ph":"X","ts":-1,"dur":-5,"args":[]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(strings.NewReader(text))
		if err != nil && (s.Busy != 0 || s.Kinds != nil) {
			t.Errorf("%+v beside %v", s, err)
		}
		if len(s.Kinds) > maxTold || len(s.Scripts) > maxTold || len(s.Tasks) > maxTold {
			t.Error("more is told than the bounds allow")
		}
	})
}
