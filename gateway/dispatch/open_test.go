package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Whatever the store groups together and whenever the mark is drawn: who starts next
// finds the calls that are open, and no others.
func TestWhoStartsNextFindsWhatIsOpen(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			h := newHouse(t, newFakeNodes(), nil)
			h.stop() // nobody marks but this test
			var open []*call
			unknown := map[capabilities.CallID]bool{}
			next := 0
			begin := func(tx *store.Tx) (*call, error) {
				next++
				c := &call{id: newCallID(time.Now()), req: Request{Caller: agentCaller, Tool: toolEvaluate}}
				c.row = row{call: c.id, principal: agentCaller.Principal, lane: "main", tool: toolEvaluate, node: "n1", requested: "n1", argsMAC: []byte{1}, state: rowOpen, created: time.Now()}
				if _, err := h.Dispatcher.opts.Ledger.AppendIn(tx, c.draft(ledger.KindCallRequest, &packet.Request{Requested: "n1"}), c.draft(ledger.KindCallDispatch, &packet.Dispatch{})); err != nil {
					return nil, err
				}
				tx.OnCommit(func() { h.open.add(&c.row) })
				return c, nil
			}
			end := func(tx *store.Tx, c *call, r *capabilities.Result) error {
				f := fateEnded
				if r.Code != "" {
					f = fateUnknown
				}
				return h.endIn(tx, c, rowOpen, c.draft(terminalKind(r.Status), &packet.End{Status: r.Status, Code: r.Code}), r, f)
			}
			for range 3 + random.IntN(30) {
				// One group of the store, as its functions of several callers would be.
				var came []*call
				var gone []int
				fail := random.IntN(8) == 0
				err := h.store.Write(t.Context(), func(tx *store.Tx) error {
					came, gone = nil, nil
					for range random.IntN(4) {
						switch random.IntN(3) {
						case 0:
							c, err := begin(tx)
							if err != nil {
								return err
							}
							came = append(came, c)
						case 1:
							if i := random.IntN(len(open) + 1); i < len(open) && !slices.Contains(gone, i) {
								r := &capabilities.Result{Status: capabilities.StatusOK}
								if random.IntN(4) == 0 {
									r = &capabilities.Result{Status: capabilities.StatusError, Code: capabilities.CodeUnknownOutcome}
								}
								if err := end(tx, open[i], r); err != nil {
									return err
								}
								c := open[i]
								tx.OnCommit(func() { unknown[c.id] = r.Code != "" })
								gone = append(gone, i)
							}
						default:
							if err := h.markIn(tx); err != nil {
								return err
							}
						}
					}
					if fail {
						return context.Canceled
					}
					return nil
				})
				if fail {
					if err == nil {
						t.Fatal("written")
					}
					continue
				}
				must(t, err)
				slices.Sort(gone)
				for _, i := range slices.Backward(gone) {
					open = slices.Delete(open, i, i+1)
				}
				open = append(open, came...)
			}

			later := New(h.opts)
			rows, err := later.leftOpen(t.Context())
			must(t, err)
			got, want := map[capabilities.CallID]string{}, map[capabilities.CallID]string{}
			for _, r := range rows {
				if got[r.call] != "" {
					t.Errorf("%s twice", r.call)
				}
				got[r.call] = r.state
				if r.principal != agentCaller.Principal || r.lane != "main" || r.tool != toolEvaluate || r.node != "n1" || r.requested != "n1" || time.Since(r.created).Abs() > time.Minute {
					t.Errorf("%+v", r)
				}
			}
			for _, c := range open {
				want[c.id] = rowOpen
			}
			for id, is := range unknown {
				if is {
					want[id] = rowUnknown
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("found %v\nwant %v", got, want)
			}
		})
	}
}

// The picture follows by itself: a call that ended leaves nothing behind, and one that
// goes on has its row.
func TestTheMarkFollows(t *testing.T) {
	nodes := newFakeNodes("n1")
	nodes.dispatch = answering(`{"result":1}`)
	h := newHouse(t, nodes, nil)
	want(t, h.evaluate(""), capabilities.StatusOK, "")
	tip, _ := h.ledger.Tip()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var seq uint64
		must(t, h.store.Read().QueryRow(`SELECT seq FROM calls_mark`).Scan(&seq))
		if seq >= tip {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mark stands at %d, the ledger at %d", seq, tip)
		}
	}
	rows, err := New(h.opts).leftOpen(t.Context())
	must(t, err)
	if len(rows) != 0 {
		t.Errorf("%+v", rows)
	}
}

// A database of a gateway that gave every call a row has no mark, and its rows are
// all there is.
func TestWithoutAMarkTheRowsCount(t *testing.T) {
	h := newHouse(t, newFakeNodes("n1"), nil)
	h.stop()
	must(t, h.ledger.Append(t.Context(), ledger.Draft{Kind: ledger.KindCallRequest, Call: "c2", Body: json.RawMessage(`{}`)}, ledger.Draft{Kind: ledger.KindCallDispatch, Call: "c2", Body: json.RawMessage(`{}`)}))
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM calls_mark`); err != nil {
			return err
		}
		return insertRow(tx, &row{call: "c1", principal: "agent-1", lane: "main", tool: toolEvaluate, node: "n1", argsMAC: []byte{1}, state: rowOpen, created: time.Now()})
	}))
	for range 2 { // the second start has a mark
		rows, err := New(h.opts).leftOpen(t.Context())
		must(t, err)
		if len(rows) != 1 || rows[0].call != "c1" {
			t.Errorf("%+v", rows)
		}
	}
}

// A call that only the ledger knows lives through several starts, and in the end is
// recorded as unknown like any other, and reconciled.
func TestUnknownAfterSeveralStarts(t *testing.T) {
	nodes := newFakeNodes("n1")
	lost := make(chan struct{})
	nodes.dispatch = func(context.Context, *wire.Ticket, func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error) {
		nodes.connect(0, false)
		close(lost)
		return losing(nil, nil, nil)
	}
	h := newHouse(t, nodes, nil)
	first := make(chan capabilities.Result, 1)
	go func() { first <- h.evaluate("") }()
	<-lost
	h.stop()
	r := <-first
	want(t, r, capabilities.StatusError, capabilities.CodeUnknownOutcome)
	for range 3 {
		h.begin()
		for range 2 { // the moment, and the mark of it
			must(t, h.store.Write(t.Context(), h.markIn))
		}
		if got := h.state(r.Call); got != rowOpen {
			t.Errorf("the row is %q", got)
		}
		h.stop()
	}
	h.wantKinds(r.Call, "request", "decision", "dispatch")
	h.begin()
	nodes.answers(stateIs(wire.StateUnknown))
	nodes.connect(0, true)
	h.awaitKinds(r.Call, "request", "decision", "dispatch", "failed")
	for range 2 {
		must(t, h.store.Write(t.Context(), h.markIn))
	}
	h.stop()
	rows, err := New(h.opts).leftOpen(t.Context())
	must(t, err)
	if len(rows) > 1 || len(rows) == 1 && rows[0].state != rowUnknown {
		t.Errorf("%+v", rows)
	}
}

func (h *house) awaitKinds(call capabilities.CallID, kinds ...string) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if slices.Equal(h.kinds(call), kinds) {
			return
		}
	}
	h.wantKinds(call, kinds...)
}

// A start reads little of the ledger, whatever filled it.
func TestTheMarkFollowsOtherPackets(t *testing.T) {
	h := newHouse(t, newFakeNodes("n1"), nil)
	h.stop()
	other := slices.Repeat([]ledger.Draft{{Kind: "policy.activated", Body: json.RawMessage(`{}`)}}, markAfter)
	must(t, h.ledger.Append(t.Context(), other...))
	for range 3 {
		must(t, h.mark(t.Context()))
	}
	var seq uint64
	must(t, h.store.Read().QueryRow(`SELECT seq FROM calls_mark`).Scan(&seq))
	if tip, _ := h.ledger.Tip(); seq != tip {
		t.Errorf("the mark stands at %d, the ledger at %d", seq, tip)
	}
	if tip, _ := h.ledger.Tip(); h.open.behind(tip) {
		t.Error("a gateway where nothing happens goes on marking")
	}
}
