package consent

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/store"
)

// Migrations are the tables of this room. Call-bound grants are not kept: they die
// with the process.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "consent", Version: 1, SQL: `
		CREATE TABLE grant_store (
			grant_id   TEXT PRIMARY KEY,
			body       TEXT NOT NULL,
			max_uses   INTEGER NOT NULL,
			used       INTEGER NOT NULL,
			expires_ms INTEGER NOT NULL
		) STRICT`}, {Room: "consent", Version: 2, SQL: `
		CREATE TABLE question (
			id         TEXT PRIMARY KEY,
			body       TEXT NOT NULL,
			expires_ms INTEGER NOT NULL
		) STRICT`}, // the questions that nobody has answered yet: who asked for which tool, and no argument
		// Of several gateways that serve at once, the one that asked.
		{Room: "consent", Version: 3, SQL: `ALTER TABLE question ADD COLUMN member TEXT NOT NULL DEFAULT ''`}}
}

// Options of New.
type Options struct {
	Store *store.Store // required, opened with Migrations
	// Record writes a packet in the same transaction as the change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Snapshot is the active policy's; required.
	Snapshot func() string
	// Stopped says that nothing may be granted now; default: never.
	Stopped func() bool
	// Wait is how long a call waits for a person before it answers "pending".
	// Default 45 s; negative: nobody is ever asked (S2-32).
	Wait time.Duration
	// Input reports whether a tool, or any of a family ("tool.desktop.*"), moves the
	// mouse or types on that node, or acts in the person's own browser there. Default:
	// none does. It is called without locks.
	Input func(tool string, node capabilities.NodeID) bool
	// Manifest digests what a tool, or all of a family, declares that it does. A grant
	// is good only for what its tools were when it was given. Default: nothing.
	Manifest func(tool string) string
	// Hosts are those that the owner of a node lets any of these tools and families reach there, now.
	// It is called without locks. Default: none.
	Hosts func(tools []string, node capabilities.NodeID) []string
	// Bound reports whether a person is to be asked at each call of a tool, or of every
	// tool of a family: nothing that lasts is granted for it. Default: of none.
	Bound func(tool string) bool
	// Owner is whose device a node is; empty: nobody's. It is called without locks.
	// Default: nobody's.
	Owner func(node capabilities.NodeID) capabilities.PrincipalID
	// Valid says whether a token is still one. Default: it is.
	Valid func(token string) bool
	// PromptEvery is how often one principal may put a new question, PromptBurst how
	// many at once; a question that is joined is none. Defaults 10 s and 8.
	PromptEvery time.Duration
	PromptBurst int
	Log         *slog.Logger     // default: discards
	Now         func() time.Time // default time.Now
}

// Consent is the set of grants and of what waits. All methods are safe for
// concurrent use.
type Consent struct {
	opts Options
	key  [32]byte // of the digests of arguments; of this process only

	mu      sync.Mutex
	halts   int // how often everything was stopped
	grants  map[string]*Grant
	pending map[string]*approval  // by ID
	changed chan struct{}         // closed at the next question or answer; nil: nobody waits for it
	settled *shelf                // what was answered lately
	denied  map[string]time.Time  // questions that a person denied, by key, until when
	ended   []handsEntry          // hands that ended lately
	calls   map[string]handsEntry // of calls that run now and that nobody leased, by grant
	prompts map[capabilities.PrincipalID]*rate.Limiter
	homes   homes // of questions that other gateways asked
}

const (
	defaultWait        = 45 * time.Second
	defaultPromptEvery = 10 * time.Second
	maxPrompts         = 4096           // principals whose questions are counted
	maxAhead           = 24 * time.Hour // a window of time begins within
)

// New makes an empty set; call Load before use.
func New(o Options) (*Consent, error) {
	if o.Store == nil || o.Snapshot == nil {
		return nil, errors.New("consent: Store and Snapshot are required")
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.Input == nil {
		o.Input = func(string, capabilities.NodeID) bool { return false }
	}
	if o.Manifest == nil {
		o.Manifest = func(string) string { return "" }
	}
	if o.Hosts == nil {
		o.Hosts = func([]string, capabilities.NodeID) []string { return nil }
	}
	if o.Bound == nil {
		o.Bound = func(string) bool { return false }
	}
	if o.Owner == nil {
		o.Owner = func(capabilities.NodeID) capabilities.PrincipalID { return "" }
	}
	if o.Valid == nil {
		o.Valid = func(string) bool { return true }
	}
	if o.PromptEvery <= 0 {
		o.PromptEvery = defaultPromptEvery
	}
	if o.PromptBurst <= 0 {
		o.PromptBurst = maxPendingEach
	}
	c := &Consent{
		opts: o, grants: map[string]*Grant{}, pending: map[string]*approval{}, settled: newShelf(), denied: map[string]time.Time{},
		calls: map[string]handsEntry{}, prompts: map[capabilities.PrincipalID]*rate.Limiter{},
	}
	rand.Read(c.key[:]) // never fails
	return c, nil
}

// Load reads the grants that are still good. Those for tools that have changed since,
// and those of another policy, are taken back: nobody said yes to what is now.
func (c *Consent) Load(ctx context.Context) error {
	rows, err := c.opts.Store.Read().QueryContext(ctx, `SELECT body, used FROM grant_store WHERE expires_ms > $1`, c.opts.Now().UnixMilli())
	if err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "")
	}
	defer rows.Close()
	changed := map[string]string{} // why, by ID
	c.mu.Lock()
	for rows.Next() {
		var body string
		g := &Grant{}
		var used int
		if err = rows.Scan(&body, &used); err != nil {
			break
		}
		if err = json.Unmarshal([]byte(body), g); err != nil {
			break
		}
		switch g.Used = used; {
		case g.Manifest != c.manifest(g.Tools):
			changed[g.ID] = "tool_changed"
			continue
		case g.Snapshot != c.opts.Snapshot():
			changed[g.ID] = "policy_changed"
			continue
		}
		c.grants[g.ID] = g
	}
	c.mu.Unlock()
	if err = errors.Join(err, rows.Err()); err != nil {
		return capabilities.Wrap(capabilities.CodeInternal, err, "a grant in the store cannot be read")
	}
	if err := c.closeForgotten(ctx); err != nil {
		return err
	}
	if len(changed) == 0 {
		return nil
	}
	c.opts.Log.Warn("consent.changed", "grants", len(changed),
		"hint", "what was granted under another policy, or for tools that this version changed, is taken back")
	return c.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		for id, why := range changed {
			if err := c.opts.Record(tx, "gateway.grant.revoked", "", packet.GrantRevoked{Grant: id, Reason: why}); err != nil {
				return err
			}
			if _, err := tx.Exec(`DELETE FROM grant_store WHERE grant_id = $1`, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// manifest digests what the tools of a grant declare.
func (c *Consent) manifest(tools []string) string {
	h := sha256.New()
	for _, t := range tools {
		fmt.Fprintf(h, "%q %s\n", t, c.opts.Manifest(t))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// digest is what call-bound grants know of arguments.
func (c *Consent) digest(args []byte) []byte {
	h := hmac.New(sha256.New, c.key[:])
	h.Write(args)
	return h.Sum(nil)
}

func newID(prefix string) string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// Spec is a grant as somebody who may approve makes it ahead of any call.
type Spec struct {
	Principal capabilities.PrincipalID
	Tools     []string
	Node      capabilities.NodeID
	Lane      capabilities.LaneID
	AnyLane   bool          // instead of Lane: any lane of the principal's
	For       time.Duration // default 5 min, at most MaxLease
	MaxUses   int           // 0: not counted
	Scope     Scope
	Reason    string // at most 500 bytes
	Approver  capabilities.PrincipalID
	// Hand says that this is what somebody does by their own hand on a device that they
	// take over: the gateway sets it, and no request for a grant can.
	Hand bool
}

// Grant makes a lease. CodeForbidden for somebody who grants themselves, and for a tool
// that can be allowed for one call only.
func (c *Consent) Grant(ctx context.Context, s Spec) (Grant, error) {
	if err := checkTools(s.Tools); err != nil {
		return Grant{}, err
	}
	if s.For == 0 {
		s.For = defaultLease
	}
	switch {
	case s.Principal == "" || s.Node == "" || (s.Lane == "") != s.AnyLane:
		return Grant{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a grant names its principal, node and lane")
	case s.For < 0 || s.For > MaxLease:
		return Grant{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a lease lasts at most %s", capabilities.Spoken(MaxLease))
	case s.MaxUses < 0 || s.MaxUses > maxUses || len(s.Reason) > 500:
		return Grant{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "max_uses must be 0 to %d and reason at most 500 bytes", maxUses)
	}
	if err := c.grantable(s); err != nil {
		return Grant{}, err
	}
	scope, err := s.Scope.check()
	if err != nil {
		return Grant{}, err
	}
	now := c.opts.Now()
	g := &Grant{
		ID: newID("g-"), Nonce: newID(""), Hosts: c.opts.Hosts(s.Tools, s.Node), Scope: scope, Kind: KindLease, Principal: s.Principal,
		Tools: slices.Clone(s.Tools), Node: s.Node, Lane: s.Lane, Snapshot: c.opts.Snapshot(), MaxUses: s.MaxUses, Approver: s.Approver,
		Reason: s.Reason, Created: now, Expires: now.Add(s.For),
	}
	if g.Scope.Starts.After(now) { // the window begins later, and is as long
		if g.Scope.Starts.Sub(now) > maxAhead {
			return Grant{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "a lease begins within %s", capabilities.Spoken(maxAhead))
		}
		g.Expires = g.Scope.Starts.Add(s.For)
	}
	if err := c.keep(ctx, g, nil); err != nil {
		return Grant{}, err
	}
	return *g, nil
}

// grantable refuses ahead of any call what an answer would be refused.
func (c *Consent) grantable(s Spec) error {
	if s.Principal == s.Approver && !s.Hand {
		return capabilities.Errorf(capabilities.CodeForbidden, "nobody grants themselves anything").
			WithAction(capabilities.Action{Key: capabilities.ActionAddUser}, "Let another user grant it.")
	}
	for _, t := range s.Tools {
		if c.opts.Bound(t) {
			return capabilities.Errorf(capabilities.CodeForbidden, "%s can be allowed %s", t, offers[KindCall].most).
				WithHint("Let the agent call it, and answer the question then.")
		}
	}
	return nil
}

// keep makes a grant durable, with what else belongs into its commit, and then
// live.
func (c *Consent) keep(ctx context.Context, g *Grant, also func(*store.Tx) error) error {
	began := c.halted()
	g.Manifest = c.manifest(g.Tools)
	body, err := json.Marshal(g)
	if err != nil {
		return err
	}
	write := c.opts.Store.Write
	if also != nil { // the answer to a question, which a full disk does not keep waiting
		write = c.opts.Store.WriteTerminal
	}
	err = write(ctx, func(tx *store.Tx) error {
		if c.halted() != began || c.opts.Stopped != nil && c.opts.Stopped() {
			return stoppedMeanwhile()
		}
		if also != nil {
			if err := also(tx); err != nil {
				return err
			}
		}
		if err := c.opts.Record(tx, "gateway.grant.made", g.Approver, g); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM grant_store WHERE expires_ms <= $1`, c.opts.Now().UnixMilli()); err != nil {
			return err
		}
		if g.Kind == KindCall {
			return nil
		}
		_, err := tx.Exec(`INSERT INTO grant_store (grant_id, body, max_uses, used, expires_ms) VALUES ($1, $2, $3, $4, $5)`,
			g.ID, string(body), g.MaxUses, 0, g.Expires.UnixMilli())
		return err
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.halts != began {
		return stoppedMeanwhile()
	}
	if g.Snapshot != c.opts.Snapshot() { // TurnIn did not see it: it covers nothing, and Load takes it back
		return capabilities.Errorf(capabilities.CodeConflict, "the policy has changed meanwhile, so nothing was granted").
			WithHint("Let the agent call again.")
	}
	c.grants[g.ID] = g
	return nil
}

// Revoke ends a grant at once.
func (c *Consent) Revoke(ctx context.Context, id string, by capabilities.PrincipalID) error {
	c.mu.Lock()
	g := c.grants[id]
	if g != nil {
		c.letGoLocked(g)
	}
	delete(c.grants, id) // before anything else: what follows can only make it durable
	c.mu.Unlock()
	if g == nil {
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no such grant")
	}
	return c.opts.Store.WriteTerminal(ctx, func(tx *store.Tx) error {
		if err := c.opts.Record(tx, "gateway.grant.revoked", by, packet.GrantRevoked{Grant: id}); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM grant_store WHERE grant_id = $1`, id)
		tx.OnCommit(func() { c.dropGrants(func(g *Grant) bool { return g.ID == id }) }) // Again may have read it meanwhile
		return err
	})
}

// RevokeOf ends every grant that somebody has, or gave, and tells how many.
func (c *Consent) RevokeOf(ctx context.Context, who, by capabilities.PrincipalID) (int, error) {
	n := 0
	var failed error
	for _, g := range c.Grants() {
		if g.Principal != who && g.Approver != who {
			continue
		}
		switch err := c.Revoke(ctx, g.ID, by); {
		case err == nil:
			n++
		case capabilities.CodeOf(err) != capabilities.CodeNotFound: // ended meanwhile
			failed = errors.Join(failed, err)
		}
	}
	return n, failed
}

// Grants returns the live grants, newest first.
func (c *Consent) Grants() []Grant {
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Grant, 0, len(c.grants))
	for id, g := range c.grants {
		if g.live(now) {
			all = append(all, *g)
		} else if !now.Before(g.Expires.Add(HandsGrace)) {
			delete(c.grants, id)
		}
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID)) < 0
	})
	return all
}

// coverLocked finds a live grant for a question: the one that is bound closest.
func (c *Consent) coverLocked(a *Ask, args []byte) *Grant {
	now := c.opts.Now()
	bound := c.opts.Bound(string(a.Tool))
	var best *Grant
	for _, g := range c.grants {
		if bound && g.Kind != KindCall { // also one that an earlier version let through
			continue
		}
		if g.live(now) && g.covers(a, args) && (best == nil || g.Kind == KindCall || best.Kind != KindCall && g.Expires.Before(best.Expires)) {
			best = g
		}
	}
	return best
}

// Covering returns the grant that a call would go on with now, and takes nothing of it; with no ID:
// there is none. reachable says whether a person would be asked: one is set up, and has not just
// said no.
func (c *Consent) Covering(a *Ask) (_ Grant, reachable bool) {
	args := c.digest(a.Args)
	a.at = c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	until, denied := c.denied[a.key(args)]
	reachable = (c.opts.Wait >= 0 || a.Defer > 0) && !(denied && a.at.Before(until))
	if g := c.coverLocked(a, args); g != nil {
		return *g, reachable
	}
	return Grant{}, reachable
}

// Permit is what a call goes on with.
type Permit struct {
	Grant string
	Kind  Kind
	// Domains are what the grant's scope leaves of the network; nil: it does not
	// narrow that.
	Domains []string
}

// Stands reports whether what a call went on with was not taken back and is not over. Of
// what was granted for that one call nothing is kept, so it stands.
func (c *Consent) Stands(p Permit) bool {
	if p.Kind == KindCall {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.grants[p.Grant]
	return g != nil && c.opts.Now().Before(g.Expires)
}

// SpendIn takes one use of a lease or session grant as part of tx, which then
// fails with CodeConsentDenied if there is none left: of any number of callers,
// exactly as many go on as there are uses. A call-bound one was taken by Await.
func (c *Consent) SpendIn(tx *store.Tx, p Permit) error {
	if p.Kind == KindCall {
		return nil
	}
	now := c.opts.Now()
	c.mu.Lock()
	g := c.grants[p.Grant]
	ok := g != nil && now.Before(g.Expires)
	c.mu.Unlock()
	if ok {
		n, err := tx.Exec(`UPDATE grant_store SET used = used + 1 WHERE grant_id = $1 AND (max_uses = 0 OR used < max_uses) AND expires_ms > $2`,
			p.Grant, now.UnixMilli())
		if err != nil {
			return err
		}
		ok = n == 1
	}
	if !ok {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "what was granted is used up, expired or revoked").
			WithHint("Call again; a person is asked anew.")
	}
	tx.OnCommit(func() {
		c.mu.Lock()
		if g := c.grants[p.Grant]; g != nil {
			g.Used++
			g.lastUsed = now
		}
		c.mu.Unlock()
	})
	return nil
}
