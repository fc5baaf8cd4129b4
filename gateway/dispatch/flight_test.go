package dispatch

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

func TestFlightGivesEveryoneTheResult(t *testing.T) {
	f := newFlight(func(error) { t.Error("cancelled") })
	first, second := f.join(nil), f.join(nil)
	f.land(capabilities.Result{Call: "c1"})
	for _, id := range []int{first, second} {
		if r, ok := f.wait(context.Background(), id); !ok || r.Call != "c1" {
			t.Errorf("%+v, %v", r, ok)
		}
	}
	// One who comes late gets it too, even with a context that has ended: it is there.
	if r, ok := f.wait(context.Background(), f.join(nil)); !ok || r.Call != "c1" {
		t.Errorf("%+v, %v", r, ok)
	}
}

// The execution ends with the last who waits for it, and for its reason.
func TestFlightIsCancelledWithItsLastWaiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cancels := 0
		var cause error
		f := newFlight(func(err error) { cancels++; cause = err })
		waiting := []int{f.join(nil)}
		for _, join := range rapid.SliceOfN(rapid.Bool(), 0, 20).Draw(t, "joins") {
			if join {
				waiting = append(waiting, f.join(nil))
				continue
			}
			if len(waiting) == 1 {
				break
			}
			id := waiting[0]
			waiting = waiting[1:]
			if _, ok := f.wait(ended(), id); ok {
				t.Fatal("a result without a landing")
			}
			if cancels != 0 {
				t.Fatalf("cancelled while %d wait", len(waiting))
			}
		}
		reason := errors.New("gone")
		for _, id := range waiting {
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(reason)
			f.wait(ctx, id)
		}
		if cancels != 1 || cause != reason {
			t.Fatalf("cancelled %d times by %v", cancels, cause)
		}
	})
}

// An execution on its waiter's own goroutine ends as any other: with its result, or with
// the last who waits.
func TestFlightCarriedOutByItsWaiter(t *testing.T) {
	reason := errors.New("gone")
	for name, c := range map[string]struct{ leaves, joined bool }{"stays": {}, "leaves": {leaves: true}, "leaves another": {leaves: true, joined: true}} {
		cancelled := make(chan error, 1)
		var f *flight
		f = newFlight(func(err error) {
			select {
			case <-f.done: // nothing is left to cancel
			default:
				cancelled <- err
			}
		})
		id, other := f.join(nil), 0
		if c.joined {
			other = f.join(nil)
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		r, ok := f.carryOut(ctx, id, func() {
			if c.leaves {
				cancel(reason)
			}
			if c.leaves && !c.joined {
				if err := <-cancelled; err != reason {
					t.Errorf("%s: cancelled by %v", name, err)
				}
			}
			f.land(capabilities.Result{Call: "c1"})
		})
		cancel(nil)
		if ok == c.leaves || ok && r.Call != "c1" {
			t.Errorf("%s: %+v, %v", name, r, ok)
		}
		if c.joined {
			if r, ok := f.wait(context.Background(), other); !ok || r.Call != "c1" {
				t.Errorf("%s: who joined got %+v, %v", name, r, ok)
			}
		}
		select {
		case err := <-cancelled:
			t.Errorf("%s: cancelled by %v", name, err)
		default:
		}
	}
}

func TestFlightReportsToThoseWhoWait(t *testing.T) {
	f := newFlight(func(error) {})
	var got [3]int
	see := func(i int) func(capabilities.Progress) { return func(capabilities.Progress) { got[i]++ } }
	f.join(see(0))
	leaves := f.join(see(1))
	f.join(nil)
	f.report(capabilities.Progress{Done: 1})
	f.wait(ended(), leaves)
	f.join(see(2))
	f.report(capabilities.Progress{Done: 2})
	if got != [3]int{2, 1, 1} {
		t.Errorf("progress seen %v times", got)
	}
}

func TestFlightsHaveOneHolder(t *testing.T) {
	fs := newFlights()
	key := requestKey{"p", "r"}
	first, second := &keyed{node: "n1"}, &keyed{node: "n2"}
	if h, mine := fs.claim(key, first); h != first || !mine {
		t.Fatal("the first could not claim")
	}
	if h, mine := fs.claim(key, second); h != first || mine {
		t.Fatal("the second claimed what was taken")
	}
	if _, mine := fs.claim(requestKey{"q", "r"}, second); !mine {
		t.Fatal("another principal met the call")
	}
	fs.release(key, second) // not its own
	if id, found := fs.node(key); !found || id != "n1" {
		t.Fatal("a stranger's release freed the key")
	}
	fs.release(key, first)
	if _, found := fs.node(key); found {
		t.Fatal("still held")
	}
}

func TestSameIsTheWholeQuestion(t *testing.T) {
	base := keyed{tool: "tool.a.b", lane: "main", target: "n1", args: [32]byte{1}}
	for name, alter := range map[string]func(*keyed){
		"tool": func(k *keyed) { k.tool = "tool.a.c" }, "lane": func(k *keyed) { k.lane = "other" },
		"node": func(k *keyed) { k.target = "" }, "arguments": func(k *keyed) { k.args = [32]byte{2} },
	} {
		other := base
		if !base.same(&other) {
			t.Fatal("not the same as itself")
		}
		if alter(&other); base.same(&other) {
			t.Errorf("another %s passes for the same", name)
		}
	}
}
