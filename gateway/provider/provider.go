package provider

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/subagent"
)

// Migrations are the tables of this room: providers, their tools, every manifest by its
// hash, and whom the gateway has to tell yet.
func Migrations() []store.Migration {
	return []store.Migration{{Room: "provider", Version: 1, SQL: `
		CREATE TABLE provider (
			name       TEXT PRIMARY KEY,
			host       TEXT NOT NULL,
			record     TEXT NOT NULL,
			manifest   TEXT NOT NULL,
			created_by TEXT NOT NULL,
			created_at BIGINT NOT NULL,
			checked_at BIGINT NOT NULL
		);
		CREATE TABLE provider_tool (
			provider  TEXT NOT NULL,
			upstream  TEXT NOT NULL,
			state     TEXT NOT NULL,
			approved  TEXT NOT NULL,
			effect    TEXT NOT NULL,
			canary    TEXT NOT NULL,
			PRIMARY KEY (provider, upstream)
		);
		CREATE TABLE manifest (
			hash TEXT PRIMARY KEY,
			body TEXT NOT NULL,
			at   BIGINT NOT NULL
		);`}, {Room: "provider", Version: 2, SQL: `
		CREATE TABLE provider_untold (
			provider  TEXT NOT NULL,
			host      TEXT NOT NULL,
			principal TEXT NOT NULL,
			role      TEXT NOT NULL,
			lane      TEXT NOT NULL,
			at        BIGINT NOT NULL,
			PRIMARY KEY (provider, host)
		);`}, {Room: "provider", Version: 3, SQL: `
		ALTER TABLE provider_tool ADD COLUMN was TEXT NOT NULL DEFAULT '';
		UPDATE provider_tool SET was = 'canary' WHERE state = 'review' AND canary <> '[]';`},
		{Room: "provider", Version: 4, SQL: `ALTER TABLE provider ADD COLUMN approver TEXT NOT NULL DEFAULT '{}'`}}
}

// Caller is the pipeline; gateway/dispatch implements it.
type Caller interface {
	Call(ctx context.Context, r dispatch.Request) capabilities.Result
}

// Consent takes the word of a person that they want exactly this call; gateway/consent
// implements it.
type Consent interface {
	Confirmed(ctx context.Context, by capabilities.PrincipalID, tool capabilities.ToolID, node capabilities.NodeID, lane capabilities.LaneID,
		args []byte) error
}

// Rules put the policy of an approval in force; the gateway implements it over gateway/rules.
type Rules interface {
	// Put has a file of policy say text; no text takes the file away.
	Put(ctx context.Context, who dispatch.Caller, name, text, reason string) error
}

// Options of Open; required unless a default is named.
type Options struct {
	Store    *store.Store
	Registry *registry.Registry
	// Record writes a packet in the same transaction as a change; default: none.
	Record func(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error
	// Allow lets a node carry out the capabilities of a provider, as the admin's allowlist, or no
	// longer: may false; default: nobody does.
	Allow func(ctx context.Context, by capabilities.PrincipalID, node capabilities.NodeID, pattern string, may bool) error
	// Teller returns who tells a host later what somebody decided: them while they still may, and
	// the site once they may not; default: them.
	Teller func(dispatch.Caller) dispatch.Caller
	// Holds reports whether a host is connected to this one of several gateways: what its connection
	// brings is done by one. Default: each is.
	Holds func(capabilities.NodeID) bool
	// Registered is told that tools are registered as another gateway decided. Default: nobody is.
	Registered func()
	Now        func() time.Time
	// SubAgents knows the calls of sub-agents that run; default: none can be carried out.
	SubAgents *subagent.Desk
	Log       *slog.Logger // default: discards
}

// Book is the providers of a gateway. All methods are safe for concurrent use.
type Book struct {
	opts    Options
	calls   Caller
	consent Consent
	rules   Rules

	hosts      Hosts
	secrets    Secrets    // nil: no provider gets credentials
	satellites Satellites // nil: there are none

	wake     chan struct{} // Run is to look anew
	news     chan struct{} // there is something stale
	inherits atomic.Bool   // another gateway is gone

	// changing orders what is decided and recorded. It is taken before mu, and never held over a
	// call to a host: those have the turns of lines.
	changing sync.Mutex
	lines    map[telling]*line
	adding   map[string]bool                   // names that are asked about before there is a record
	fresh    map[capabilities.ToolID]time.Time // when it was approved anew; its host may not have said so yet

	mu       sync.Mutex
	all      map[string]*Provider
	programs map[string]program
	late     map[telling]*untold
	stale    map[string]*Provider // that another gateway changed, as they were registered here; nil: not at all
}

// program is the address of a provider's record, which is long to work out.
type program struct {
	of   *Provider
	hash string
}

// Provider is one provider with its tools. A copy that was handed out never changes.
type Provider struct {
	tools.Provider
	Host     capabilities.NodeID
	Manifest tools.ToolManifest // what it said last
	Hash     string             // of Manifest
	Tools    []Tool             // by ID
	Refused  []tools.Refused    // what cannot be taken, and why
	Tried    []tools.Tried      // what it wanted to connect to and was not let, as of the last check by this process
	By       capabilities.PrincipalID
	Created  time.Time
	// Approver is who approved it last, as far as it has credentials; zero: nobody has.
	Approver dispatch.Caller
	Checked  time.Time // when it was asked last what it offers

	// past is the life of tools that it does not offer now, by its own names: one that comes
	// back is what it was.
	past map[string]Tool

	row string // of the store, as it was read or kept
}

// Tool is one tool of a provider.
type Tool struct {
	tools.Described
	State State
	Was   State // the state that it had before it came into Review; "" if it is not there
	// Approved is the hash that a person approved; "" for none. The tool is callable while
	// that is Described.Hash and State.Callable.
	Approved string
	Effect   string // what the approval lets agents do: allow, ask or deny
	Canary   []capabilities.PrincipalID
}

// Changed reports whether what the provider says of it is not what was approved.
func (t *Tool) Changed() bool { return t.Approved != "" && t.Approved != t.Hash }

// Callable reports whether it is registered.
func (t *Tool) Callable() bool { return t.State.Callable() && t.Approved == t.Hash }

// Open reads the records and registers what was approved.
func Open(ctx context.Context, o Options) (*Book, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Record == nil {
		o.Record = func(*store.Tx, string, capabilities.PrincipalID, any) error { return nil }
	}
	if o.Teller == nil {
		o.Teller = func(who dispatch.Caller) dispatch.Caller { return who }
	}
	if o.Registered == nil {
		o.Registered = func() {}
	}
	if o.Allow == nil {
		o.Allow = func(context.Context, capabilities.PrincipalID, capabilities.NodeID, string, bool) error { return nil }
	}
	b := &Book{
		opts: o, all: map[string]*Provider{}, programs: map[string]program{},
		late: map[telling]*untold{}, lines: map[telling]*line{}, adding: map[string]bool{},
		wake: make(chan struct{}, 1), news: make(chan struct{}, 1), fresh: map[capabilities.ToolID]time.Time{},
		stale: map[string]*Provider{},
	}
	all, err := b.stored(ctx, nil)
	if err := errors.Join(err, b.owed(ctx)); err != nil {
		return nil, err
	}
	b.all = all
	for _, p := range b.List() {
		if err := b.register(&p, nil); err != nil {
			o.Log.Error("provider.register", "provider", p.Name, "err", err)
		}
	}
	return b, nil
}

// Serve sets what changes need; before the first of them.
func (b *Book) Serve(calls Caller, consent Consent, rules Rules, hosts Hosts, secrets Secrets) {
	b.calls, b.consent, b.rules, b.hosts, b.secrets = calls, consent, rules, hosts, secrets
}

// stored returns the records as they stand in the store. Those that are as before are the same
// ones.
func (b *Book) stored(ctx context.Context, before map[string]*Provider) (map[string]*Provider, error) {
	lives, err := b.livesStored(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := b.opts.Store.Read().QueryContext(ctx,
		`SELECT name, host, record, manifest, created_by, created_at, checked_at, approver FROM provider`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]*Provider{}
	var anew []*Provider
	for rows.Next() {
		var p Provider
		var name, record, approver string
		var created, checked int64
		if err := rows.Scan(&name, &p.Host, &record, &p.Hash, &p.By, &created, &checked, &approver); err != nil {
			return nil, err
		}
		p.Created, p.Checked = time.UnixMilli(created).UTC(), time.UnixMilli(checked).UTC()
		p.row = p.rowOf(record, approver, lives[name])
		was := before[name]
		if was != nil && was.row == p.row {
			all[name] = was
			continue
		}
		if err := errors.Join(json.Unmarshal([]byte(record), &p.Provider), json.Unmarshal([]byte(approver), &p.Approver)); err != nil {
			return nil, err
		}
		if was != nil && was.Hash == p.Hash {
			p.Tried = was.Tried
		}
		all[name], anew = &p, append(anew, &p)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, p := range anew {
		if p.Manifest, err = b.Manifest(ctx, p.Hash); err != nil {
			return nil, err
		}
	}
	// Side by side: a start waits for all of them, and each takes time for every tool.
	var describing errgroup.Group
	describing.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range anew {
		describing.Go(func() error { p.read(lives[p.Name]); return nil })
	}
	return all, describing.Wait()
}

// livesStored returns what is known of each tool, by provider and its own name of the tool.
func (b *Book) livesStored(ctx context.Context) (map[string]map[string]Tool, error) {
	rows, err := b.opts.Store.Read().QueryContext(ctx, `SELECT provider, upstream, state, was, approved, effect, canary FROM provider_tool`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	lives := map[string]map[string]Tool{}
	for rows.Next() {
		var provider, upstream, canary string
		var t Tool
		if err := rows.Scan(&provider, &upstream, &t.State, &t.Was, &t.Approved, &t.Effect, &canary); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(canary), &t.Canary); err != nil {
			return nil, err
		}
		if lives[provider] == nil {
			lives[provider] = map[string]Tool{}
		}
		lives[provider][upstream] = t
	}
	return lives, rows.Err()
}

// rowOf is what the store has of a provider and its tools, to tell whether that is another by now.
func (p *Provider) rowOf(record, approver string, lives map[string]Tool) string {
	var all strings.Builder
	fmt.Fprintf(&all, "%s %s %s %s %d %d %s", p.Host, record, p.Hash, p.By, p.Created.UnixMilli(), p.Checked.UnixMilli(), approver)
	for _, upstream := range slices.Sorted(maps.Keys(lives)) {
		t := lives[upstream]
		fmt.Fprintf(&all, " %q %s %s %s %s %q", upstream, t.State, t.Was, t.Approved, t.Effect, t.Canary)
	}
	return all.String()
}

// describe works out the tools of the manifest; lives says what is known of each, by its
// provider's own name.
func (p *Provider) describe(lives map[string]Tool) {
	p.Hash = p.Manifest.Hash()
	p.read(lives)
}

// read is describe for a manifest whose hash is known.
func (p *Provider) read(lives map[string]Tool) {
	list, refused := tools.Describe(&p.Provider, &p.Manifest)
	p.Tools, p.Refused, p.past = make([]Tool, 0, len(list)), refused, map[string]Tool{}
	for name, t := range lives {
		if t.Approved != "" || t.State == Retired {
			p.past[name] = t
		}
	}
	for _, d := range list {
		t, ok := lives[d.Upstream]
		if !ok {
			t.State = Draft
		}
		t.Described = d
		p.Tools = append(p.Tools, t)
		delete(p.past, d.Upstream)
	}
	flagAlike(p.Tools)
}

// lives is what is known of each of its tools, those that it does not offer now among them.
func (p *Provider) lives() map[string]Tool {
	all := maps.Clone(p.past)
	if all == nil {
		all = map[string]Tool{}
	}
	for _, t := range p.Tools {
		all[t.Upstream] = t
	}
	return all
}

// register has the registry hold the tools of a provider: those that are callable now, and were
// before where that is given. Rules may name all others.
func (b *Book) register(p, before *Provider) error {
	var offered, withheld []*catalog.Descriptor
	var were map[capabilities.ToolID]bool
	if before != nil {
		were = before.callable()
	}
	for i := range p.Tools {
		t := &p.Tools[i]
		if t.Callable() && (before == nil || were[t.Described.Tool]) {
			offered = append(offered, t.Descriptor)
		} else {
			withheld = append(withheld, t.Descriptor)
		}
	}
	if p.Kind.Composed() {
		return b.composed(p, offered, withheld)
	}
	return b.opts.Registry.Hosted(p.Name, b.hostsOf(p), offered, withheld)
}

// callable are the tools that are registered.
func (p *Provider) callable() map[capabilities.ToolID]bool {
	all := make(map[capabilities.ToolID]bool, len(p.Tools))
	for i := range p.Tools {
		if t := &p.Tools[i]; t.Callable() {
			all[t.Described.Tool] = true
		}
	}
	return all
}

// List returns all providers, by name.
func (b *Book) List() []Provider {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]Provider, 0, len(b.all))
	for _, p := range b.all {
		list = append(list, *p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list
}

// Get finds a provider by its name: CodeNotFound.
func (b *Book) Get(name string) (Provider, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.all[name]; p != nil {
		return *p, nil
	}
	return Provider{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no provider %.32q", name).
		WithAction(capabilities.Action{Key: capabilities.ActionListProviders}, "Check its name.")
}

// Program addresses what carries a provider's tools out, by all of its record (S1-52); its name if
// there is no such provider.
func (b *Book) Program(name string) string {
	b.mu.Lock()
	p, known := b.all[name], b.programs[name]
	b.mu.Unlock()
	if p == nil {
		return name
	}
	if known.of == p {
		return known.hash
	}
	known = program{p, p.Provider.Hash()}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.programs[name] = known
	return known.hash
}

// Tool finds a tool of a provider by its ID: CodeUnknownTool.
func (b *Book) Tool(id capabilities.ToolID) (Provider, Tool, error) {
	for _, p := range b.List() {
		for _, t := range p.Tools {
			if t.Described.Tool == id {
				return p, t, nil
			}
		}
	}
	return Provider{}, Tool{}, capabilities.Errorf(capabilities.CodeUnknownTool, "no provider has a tool %.128q", id)
}

// Manifest returns a manifest that was seen, by its hash: CodeNotFound.
func (b *Book) Manifest(ctx context.Context, hash string) (m tools.ToolManifest, err error) {
	var body string
	err = b.opts.Store.Read().QueryRowContext(ctx, `SELECT body FROM manifest WHERE hash = $1`, hash).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return m, capabilities.Errorf(capabilities.CodeNotFound, "there is no manifest %.80q", hash)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &m)
	}
	return m, err
}
