package opencalls

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tool = capabilities.ToolID("tool.browser.evaluate")

// house is a Book over a real store and ledger.
type house struct {
	*Book
	store  *store.Store
	ledger *ledger.Ledger
}

func newHouse(t *testing.T) *house {
	t.Helper()
	// As dispatch.Migrations has them; version 2 and 5 are not of this room.
	migrations := slices.Concat(ledger.Migrations, outcome.Migrations)
	for i, m := range Migrations {
		migrations = append(migrations, store.Migration{Room: "opencalls-test", Version: i + 1, SQL: m.SQL})
	}
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), ReserveBytes: -1, Migrations: migrations})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	l, err := ledger.Open(t.Context(), ledger.Options{Store: s, Chain: "gateway", Key: ed25519.NewKeyFromSeed(make([]byte, 32))})
	must(t, err)
	h := &house{store: s, ledger: l}
	h.Book = h.next()
	_, err = h.LeftOpen(t.Context()) // as every start
	must(t, err)
	return h
}

// next is the Book of the next process.
func (h *house) next() *Book {
	return New(Options{Store: h.store, Ledger: h.ledger, Nodes: nodestest.New("n1")})
}

func (h *house) state(call capabilities.CallID) (state State) {
	err := h.store.Read().QueryRow(`SELECT state FROM calls WHERE call_id = $1`, string(call)).Scan(&state)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		panic(err)
	}
	return state
}

func draft(c *Call, kind ledger.Kind, body packet.Body) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: c.ID, Tool: c.Tool, Principal: c.Principal, Lane: c.Lane, Node: c.Node, Body: body}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// However the store groups writes and whenever the mark is drawn: who starts next
// finds the calls that are open, and no others.
func TestWhoStartsNextFindsWhatIsOpen(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			h := newHouse(t) // nobody marks but this test
			var open []*Call
			unknown := map[capabilities.CallID]bool{}
			next := 0
			begin := func(tx *store.Tx) (*Call, error) {
				next++
				now := time.Now()
				c := &Call{ID: NewID(now), Principal: "agent-1", Lane: "main", Tool: tool, Node: "n1", Requested: "n1", ArgsMAC: []byte{1}, State: Open, Created: now}
				if _, err := h.ledger.AppendIn(tx, draft(c, ledger.KindCallRequest, &packet.Request{Requested: "n1"}), draft(c, ledger.KindCallDispatch, &packet.Dispatch{})); err != nil {
					return nil, err
				}
				return c, h.OpenIn(tx, c)
			}
			end := func(tx *store.Tx, c *Call, r *capabilities.Result) error {
				kind, f := ledger.KindCallResult, FateEnded
				if r.Code != "" {
					kind, f = ledger.KindCallFailed, FateUnknown
				}
				if _, err := h.ledger.AppendIn(tx, draft(c, kind, &packet.End{Status: r.Status, Code: r.Code})); err != nil {
					return err
				}
				return h.EndIn(tx, c, Open, f)
			}
			for range 3 + random.IntN(30) {
				// One group of the store, as its functions of several callers would be.
				var came []*Call
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
								tx.OnCommit(func() { unknown[c.ID] = r.Code != "" })
								gone = append(gone, i)
							}
						default:
							if err := h.MarkIn(tx); err != nil {
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

			rows, err := h.next().LeftOpen(t.Context())
			must(t, err)
			got, want := map[capabilities.CallID]State{}, map[capabilities.CallID]State{}
			for _, r := range rows {
				if got[r.ID] != "" {
					t.Errorf("%s twice", r.ID)
				}
				got[r.ID] = r.State
				if r.Principal != "agent-1" || r.Lane != "main" || r.Tool != tool || r.Node != "n1" || r.Requested != "n1" || time.Since(r.Created).Abs() > time.Minute {
					t.Errorf("%+v", r)
				}
			}
			for _, c := range open {
				want[c.ID] = Open
			}
			for id, is := range unknown {
				if is {
					want[id] = Unknown
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("found %v\nwant %v", got, want)
			}
		})
	}
}

// A database of a gateway that gave every call a row has no mark, and its rows are
// all there is.
func TestWithoutAMarkTheRowsCount(t *testing.T) {
	h := newHouse(t)
	must(t, h.ledger.Append(t.Context(), ledger.Draft{Kind: ledger.KindCallRequest, Call: "c2", Body: json.RawMessage(`{}`)}, ledger.Draft{Kind: ledger.KindCallDispatch, Call: "c2", Body: json.RawMessage(`{}`)}))
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error {
		if _, err := tx.Exec(`DELETE FROM calls_mark`); err != nil {
			return err
		}
		return insert(tx, &Call{ID: "c1", Principal: "agent-1", Lane: "main", Tool: tool, Node: "n1", ArgsMAC: []byte{1}, State: Open, Created: time.Now()})
	}))
	for range 2 { // the second start has a mark
		rows, err := h.next().LeftOpen(t.Context())
		must(t, err)
		if len(rows) != 1 || rows[0].ID != "c1" {
			t.Errorf("%+v", rows)
		}
	}
}

// Admin work is its own room's: a start ends none of it, and another gateway may carry it out now.
func TestAdminWorkIsNotLeftOpen(t *testing.T) {
	h := newHouse(t)
	for _, of := range []capabilities.ToolID{"tool.admin.token-create", tool} {
		c := &Call{ID: NewID(time.Now()), Principal: "admin", Lane: "admin", Tool: of}
		must(t, h.ledger.Append(t.Context(), draft(c, ledger.KindCallRequest, &packet.Request{}), draft(c, ledger.KindCallDispatch, &packet.Dispatch{})))
	}
	rows, err := h.next().LeftOpen(t.Context())
	must(t, err)
	if len(rows) != 1 || rows[0].Tool != tool {
		t.Errorf("%+v", rows)
	}
}

// Rows of long ago do not stay.
func TestSweep(t *testing.T) {
	h := newHouse(t)
	now := time.Now()
	for call, r := range map[capabilities.CallID]Call{
		"open": {State: Open, Created: now.Add(-30 * 24 * time.Hour)}, "unknown-old": {State: Unknown, Created: now.Add(-30 * 24 * time.Hour)},
		"unknown": {State: Unknown, Created: now}, "ended": {State: Ended, Created: now},
	} {
		r.ID, r.ArgsMAC, r.Tool, r.Node = call, []byte{1}, tool, "n1"
		must(t, h.store.Write(t.Context(), func(tx *store.Tx) error { return insert(tx, &r) }))
	}
	must(t, h.store.Write(t.Context(), func(tx *store.Tx) error { return SweepIn(tx, now) }))
	for call, want := range map[capabilities.CallID]State{"open": Open, "unknown-old": "", "unknown": Unknown, "ended": Ended} {
		if got := h.state(call); got != want {
			t.Errorf("%s is %q, want %q", call, got, want)
		}
	}
}

// A start reads little of the ledger, whatever filled it.
func TestTheMarkFollowsOtherPackets(t *testing.T) {
	h := newHouse(t)
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
