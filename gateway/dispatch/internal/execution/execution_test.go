package execution

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestExecutionGivesEveryoneTheResult(t *testing.T) {
	f := New(func(error) { t.Error("cancelled") })
	first, second := f.Join(nil), f.Join(nil)
	f.End(capabilities.Result{Call: "c1"})
	for _, id := range []int{first, second} {
		if r, ok := f.Wait(context.Background(), id); !ok || r.Call != "c1" {
			t.Errorf("%+v, %v", r, ok)
		}
	}
	// One who comes late gets it too, even with a context that has ended: it is there.
	if r, ok := f.Wait(context.Background(), f.Join(nil)); !ok || r.Call != "c1" {
		t.Errorf("%+v, %v", r, ok)
	}
}

// The execution ends with the last who waits for it, and for its reason.
func TestExecutionIsCancelledWithItsLastWaiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cancels := 0
		var cause error
		f := New(func(err error) { cancels++; cause = err })
		waiting := []int{f.Join(nil)}
		for _, join := range rapid.SliceOfN(rapid.Bool(), 0, 20).Draw(t, "joins") {
			if join {
				waiting = append(waiting, f.Join(nil))
				continue
			}
			if len(waiting) == 1 {
				break
			}
			id := waiting[0]
			waiting = waiting[1:]
			if _, ok := f.Wait(ended(), id); ok {
				t.Fatal("a result without an end")
			}
			if cancels != 0 {
				t.Fatalf("cancelled while %d wait", len(waiting))
			}
		}
		reason := errors.New("gone")
		for _, id := range waiting {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(reason)
			f.Wait(ctx, id)
		}
		if cancels != 1 || cause != reason {
			t.Fatalf("cancelled %d times by %v", cancels, cause)
		}
	})
}

func TestExecutionReportsToThoseWhoWait(t *testing.T) {
	f := New(func(error) {})
	var got [3]int
	see := func(i int) func(capabilities.Progress) { return func(capabilities.Progress) { got[i]++ } }
	f.Join(see(0))
	leaves := f.Join(see(1))
	f.Join(nil)
	f.Report(capabilities.Progress{Done: 1})
	f.Wait(ended(), leaves)
	f.Join(see(2))
	f.Report(capabilities.Progress{Done: 2})
	if got != [3]int{2, 1, 1} {
		t.Errorf("progress seen %v times", got)
	}
}

func TestKeysHaveOneHolder(t *testing.T) {
	fs := NewTable()
	key := Key{Asker: Asker{Principal: "p"}, Request: "r"}
	first, second := &Asked{Node: "n1"}, &Asked{Node: "n2"}
	if h, mine := fs.Claim(key, first); h != first || !mine {
		t.Fatal("the first could not claim")
	}
	if h, mine := fs.Claim(key, second); h != first || mine {
		t.Fatal("the second claimed what was taken")
	}
	for _, other := range []Asker{{Principal: "q"}, {Principal: "p", Person: true}} {
		if _, mine := fs.Claim(Key{Asker: other, Request: "r"}, second); !mine {
			t.Fatalf("%+v met the call", other)
		}
	}
	fs.Release(key, second) // not its own
	if a := fs.Get(key); a == nil || a.Node != "n1" {
		t.Fatal("a stranger's release freed the key")
	}
	fs.Release(key, first)
	if fs.Get(key) != nil {
		t.Fatal("still held")
	}
}

func TestSameIsTheWholeQuestion(t *testing.T) {
	base := Asked{Tool: "tool.a.b", Lane: "main", Target: "n1", Args: [32]byte{1}}
	for name, alter := range map[string]func(*Asked){
		"tool": func(k *Asked) { k.Tool = "tool.a.c" }, "lane": func(k *Asked) { k.Lane = "other" },
		"node": func(k *Asked) { k.Target = "" }, "arguments": func(k *Asked) { k.Args = [32]byte{2} },
	} {
		other := base
		if !base.Same(&other) {
			t.Fatal("not the same as itself")
		}
		if alter(&other); base.Same(&other) {
			t.Errorf("another %s passes for the same", name)
		}
	}
}
