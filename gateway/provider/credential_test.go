package provider

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/nodes/nodestest"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/store"
)

// kept are references of stored secrets, by owner and alias; what each means is in meant.
type kept struct {
	mu    sync.Mutex
	refs  map[capabilities.PrincipalID]map[string]string
	meant map[string]string
	made  int
}

func (k *kept) Known(context.Context, string) error { return nil }

func (k *kept) Allow(_ context.Context, _ capabilities.PrincipalID, s secret.Spec) (secret.Reference, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refs[s.Principal][s.Alias] != "" {
		return secret.Reference{}, &capabilities.Error{Code: capabilities.CodeConflict}
	}
	if k.refs[s.Principal] == nil {
		k.refs[s.Principal] = map[string]string{}
	}
	k.made++
	id := string(rune('a' + k.made))
	k.refs[s.Principal][s.Alias], k.meant[id] = id, s.Name
	return secret.Reference{ID: id, Alias: s.Alias}, nil
}

func (k *kept) Usable(p capabilities.PrincipalID, _ capabilities.ToolID) (list []secret.Reference) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for alias, id := range k.refs[p] {
		list = append(list, secret.Reference{ID: id, Alias: alias})
	}
	return list
}

func (k *kept) RemoveAlias(_ context.Context, _ capabilities.PrincipalID, alias string, _ capabilities.ToolID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, of := range k.refs {
		delete(of, alias)
	}
	return nil
}

// calls notes the calls of managing, and refuses them while refuse is set.
type calls struct {
	mu     sync.Mutex
	made   []capabilities.ToolID
	by     []capabilities.PrincipalID
	args   []string
	refuse capabilities.Code
	silent map[capabilities.NodeID]chan struct{} // hosts that answer once it is closed
	asked  chan capabilities.NodeID              // such a host was called
}

func (c *calls) Call(ctx context.Context, r dispatch.Request) capabilities.Result {
	var to struct {
		Node capabilities.NodeID `json:"node_id"`
	}
	if err := json.Unmarshal(r.Args, &to); err != nil {
		panic(err)
	}
	c.mu.Lock()
	silent := c.silent[to.Node]
	c.mu.Unlock()
	if silent != nil {
		c.asked <- to.Node
		select {
		case <-silent:
		case <-ctx.Done():
			return capabilities.Result{Status: capabilities.StatusError, Code: capabilities.CodeUnknownOutcome}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made, c.by, c.args = append(c.made, r.Tool), append(c.by, r.Principal), append(c.args, string(r.Args))
	if c.refuse != "" {
		return capabilities.Result{Status: capabilities.StatusDenied, Code: c.refuse}
	}
	return capabilities.Result{Status: capabilities.StatusOK, Output: []byte(`{}`)}
}

func (c *calls) Confirmed(context.Context, capabilities.PrincipalID, capabilities.ToolID, capabilities.NodeID, capabilities.LaneID, []byte) error {
	return nil
}

func (c *calls) take() []capabilities.ToolID {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.made
	c.made, c.by, c.args = nil, nil, nil
	return made
}

func (c *calls) set(refuse capabilities.Code) { c.mu.Lock(); defer c.mu.Unlock(); c.refuse = refuse }

// desk is a connected host of providers.
func desk() *nodestest.Nodes {
	roster := nodestest.New("desk")
	for _, c := range []capabilities.CapabilityID{"tyrum.provider.credential", "tyrum.provider.withdraw"} {
		roster.Roster[0].Readiness[c] = capabilities.Readiness{Capability: c, Isolation: capabilities.ClassT2}
	}
	return roster
}

// empty is a store in which no provider is yet.
func empty(t *testing.T) *store.Store {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "store.db"), Migrations: Migrations(), ReserveBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// noRules take every policy.
type noRules struct{}

func (noRules) Put(context.Context, dispatch.Caller, string, string, string) error { return nil }

// entrusting is a book with one provider that anna approved with a credential, whose host is
// connected.
func entrusting(t *testing.T) (*Book, *kept, *calls, *nodestest.Nodes) {
	t.Helper()
	cat, err := catalog.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	roster := desk()
	b, err := Open(t.Context(), Options{Store: empty(t), Registry: registry.New(cat, slog.New(slog.DiscardHandler))})
	if err != nil {
		t.Fatal(err)
	}
	k := &kept{refs: map[capabilities.PrincipalID]map[string]string{}, meant: map[string]string{}}
	c := &calls{}
	b.Serve(c, c, noRules{}, roster, k)
	record := tools.Provider{Name: "words", Kind: tools.KindMCP, Command: []string{"x"}, Env: []tools.Credential{{Name: "TOKEN", Secret: "token"}}}
	tool := described(t, record, tools.RemoteTool{Name: "look", Description: "Looks."})
	tool.State, tool.Approved = Active, tool.Hash
	p := Provider{Provider: record, Host: "desk", Tools: []Tool{tool}}
	if err := b.entrust(t.Context(), dispatch.Caller{Principal: "anna", Role: "admin"}, &p); err != nil {
		t.Fatal(err)
	}
	b.all[p.Name] = &p
	return b, k, c, roster
}

// follow has everything done that is due.
func follow(t *testing.T, b *Book) {
	t.Helper()
	var working sync.WaitGroup
	b.follow(t.Context(), &working, b.hosts.Snapshot())
	working.Wait()
}

// A secret that is gone is taken back from the program that runs with it, whether a tool of it is
// called now or waits for a look (S0-42).
func TestASecretThatIsGoneIsTakenBackFromAProviderInReview(t *testing.T) {
	b, k, c, _ := entrusting(t)
	follow(t, b)
	if got := c.take(); !slices.Equal(got, []capabilities.ToolID{toolCredential}) {
		t.Fatalf("%v", got)
	}
	p := *b.all["words"]
	p.Tools = slices.Clone(p.Tools)
	p.Tools[0].review()
	b.all["words"] = &p
	follow(t, b)
	if got := c.take(); len(got) != 0 {
		t.Errorf("%v for one in review", got)
	}
	clear(k.refs)
	follow(t, b)
	follow(t, b)
	if got := c.take(); !slices.Equal(got, []capabilities.ToolID{toolWithdraw}) {
		t.Errorf("%v, want it to be taken back once", got)
	}
}

// A call that fails, as under the stop switch, is made again until it is done, though the roster
// does not change.
func TestADeliveryThatFailedIsTriedAgain(t *testing.T) {
	for name, gone := range map[string]bool{"delivery": false, "taking back": true} {
		t.Run(name, func(t *testing.T) {
			b, k, c, _ := entrusting(t)
			want := toolCredential
			if gone {
				follow(t, b)
				c.take()
				clear(k.refs)
				want = toolWithdraw
			}
			synctest.Test(t, func(t *testing.T) {
				b.wake, b.hosts = make(chan struct{}, 1), desk() // channels of this bubble
				c.set(capabilities.CodeStopped)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = b.Run(ctx) })
				defer running.Wait()
				defer cancel()
				time.Sleep(10 * time.Minute)
				if n := len(c.take()); n < 10 || n > 20 {
					t.Errorf("tried %d times in ten minutes", n)
				}
				c.set("")
				time.Sleep(lastRetry)
				synctest.Wait()
				if got := c.take(); !slices.Equal(got, []capabilities.ToolID{want}) {
					t.Errorf("%v once it may", got)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := c.take(); len(got) != 0 {
					t.Errorf("%v after it was done", got)
				}
			})
		})
	}
}

// A host that connects again has its failures behind it.
func TestAHostThatConnectsAgainIsTriedAtOnce(t *testing.T) {
	b, _, c, roster := entrusting(t)
	c.set(capabilities.CodeStopped)
	follow(t, b)
	follow(t, b)
	if got := c.take(); len(got) != 1 {
		t.Errorf("%v", got)
	}
	for _, connected := range []bool{false, true} {
		roster.Connect(0, connected)
		follow(t, b)
	}
	if got := c.take(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// An approval takes over no reference that is there already, whoever's it is and whatever it means.
func TestAnApprovalMakesItsOwnReferences(t *testing.T) {
	b, k, _, _ := entrusting(t)
	later := *b.all["words"]
	later.Env = []tools.Credential{{Name: "TOKEN", Secret: "shown"}}
	for _, who := range []capabilities.PrincipalID{"anna", "bob"} {
		if err := b.entrust(t.Context(), dispatch.Caller{Principal: who, Role: "admin"}, &later); err != nil {
			t.Fatal(err)
		}
		if id := b.reference(&later, "TOKEN"); k.meant[id] != "shown" || later.Approver.Principal != who {
			t.Errorf("%s approved one that means %q", who, k.meant[id])
		}
	}
	if len(k.refs["anna"]) != 0 {
		t.Errorf("%v are left of anna's", k.refs["anna"])
	}
}

// Once the approver may approve no more, nothing is delivered on their word: it is taken back, in
// nobody's name.
func TestAnApproverWhoIsGone(t *testing.T) {
	b, _, c, _ := entrusting(t)
	follow(t, b)
	c.take()
	b.opts.Teller = func(dispatch.Caller) dispatch.Caller { return dispatch.Caller{Principal: "site"} }
	follow(t, b)
	if by := c.by; !slices.Equal(by, []capabilities.PrincipalID{"site"}) {
		t.Errorf("by %v", by)
	}
	if got := c.take(); !slices.Equal(got, []capabilities.ToolID{toolWithdraw}) {
		t.Errorf("%v", got)
	}
	b.Renewed(t.Context(), "token")
	if got := c.take(); slices.Contains(got, toolCredential) {
		t.Errorf("%v", got)
	}
}
