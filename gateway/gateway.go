package gateway

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/admin"
	"github.com/handrail-dev/handrail/gateway/backup"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/front/mcp"
	"github.com/handrail-dev/handrail/gateway/front/rest"
	"github.com/handrail-dev/handrail/gateway/generation"
	"github.com/handrail-dev/handrail/gateway/governance"
	"github.com/handrail-dev/handrail/gateway/job"
	"github.com/handrail-dev/handrail/gateway/knowledge"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/live"
	"github.com/handrail-dev/handrail/gateway/mail"
	"github.com/handrail-dev/handrail/gateway/metrics"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/oauth"
	"github.com/handrail-dev/handrail/gateway/oidc"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/provider"
	"github.com/handrail-dev/handrail/gateway/push"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/signin"
	"github.com/handrail-dev/handrail/gateway/skill"
	"github.com/handrail-dev/handrail/gateway/stop"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/subagent"
	"github.com/handrail-dev/handrail/gateway/task"
	"github.com/handrail-dev/handrail/gateway/trace"
	"github.com/handrail-dev/handrail/gateway/turn"
	"github.com/handrail-dev/handrail/gateway/webhook"
	"github.com/handrail-dev/handrail/gateway/worker"
	"github.com/handrail-dev/handrail/pairing"
)

// lease is how long one of several gateways serves without a word from the store.
const lease = 5 * time.Second

// Gateway is one gateway, put together.
type Gateway struct {
	opts    Options
	log     *slog.Logger
	began   time.Time
	metrics *metrics.Registry

	Store      *store.Store
	Ledger     *ledger.Ledger
	Outcomes   *outcome.Store
	Artifacts  *outcome.Artifacts
	Tokens     *principal.Tokens
	Lanes      *lane.Lanes
	Consent    *consent.Consent
	asked      *consent.Everywhere
	Switch     *stop.Switch
	Nodes      *nodes.Nodes
	Bus        *bus.Bus
	Registry   *registry.Registry
	Secrets    *secret.Vault
	Rulebook   *rules.Book
	Tasks      *task.Tasks
	Providers  *provider.Book
	SignIns    *signin.Book
	Clients    *oauth.Server
	OIDC       *oidc.Provider // nil: people sign in here
	Selector   *Selector
	Knowledge  *knowledge.Facts
	Turns      *turn.Turns
	Jobs       *job.Jobs
	SubAgents  *subagent.Desk
	Workers    *worker.Workers
	api        *rest.Server
	Works      *admin.Desk
	Governance *governance.Model
	Drift      *events.Book
	Skills     *skill.Shelf
	Dispatcher *dispatch.Dispatcher
	Live       *live.Sessions
	Push       *push.Book
	Front      *front.Server

	hosts     *hosts           // nodes and satellites
	peers     *busPeers        // the other gateways, for satellites; nil: there are none
	files     *front.Artifacts // who may have which artifact
	site      *pairing.Site
	mcp       *mcp.Server
	quic      net.Addr
	cert      *front.Certificate // of HTTPS; nil: none
	clientKey []byte             // makes what OAuth clients hold

	hooks  []webhook.Hook  // who is told what waits for a person
	mail   *mail.Config    // likewise, by e-mail; nil: nobody
	traces *trace.Exporter // nil: nobody is told how calls went
	heads  chan nodeHead   // of nodes' logs, on their way into the ledger

	generation generation.State
	later      chan superseded // a node's proof of a later copy of the site

	turned chan nodeStop // nodes' stop switches, on their way into the store

	drain   sync.Once
	leaving leaving
}

// Open reads keys, policy and store and opens both listeners, so that every
// address is known. It serves nothing yet.
func Open(ctx context.Context, o Options) (_ *Gateway, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		opts: o, log: o.Log, began: time.Now(), metrics: metrics.New(), heads: make(chan nodeHead, 256), turned: make(chan nodeStop, 1024),
		later: make(chan superseded, 1),
	}
	g.metrics.Process()
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	// The catalog is read beside the store: a start would wait for one after the other.
	var reading sync.WaitGroup
	var unread error
	if o.Catalog == nil {
		reading.Go(func() { g.opts.Catalog, unread = catalog.Embedded() })
	}
	key, seal, err := g.openStore(ctx)
	if err == nil {
		err = errors.Join(g.generation.Superseded(), store.DropSnapshot(ctx, g.path(backup.SnapshotName)))
	}
	if err == nil && o.Prepare != nil {
		err = o.Prepare(ctx)
	}
	reading.Wait()
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, err
	}
	g.openTraces(key)
	g.Registry = registry.New(g.opts.Catalog, g.log)
	if err := g.keep(ctx, key, seal); err != nil {
		return nil, err
	}
	if err := g.serve(ctx); err != nil {
		return nil, err
	}
	return g, nil
}

// openStore opens what lasts and needs no catalog: keys, store, ledger. It returns the gateway's
// own key and that of outcomes.
func (g *Gateway) openStore(ctx context.Context) (key ed25519.PrivateKey, seal []byte, err error) {
	root, _, err := pairing.LoadOrCreateKey(g.path("site.key"))
	if err != nil {
		return nil, nil, err
	}
	if g.site, err = pairing.NewSite(root); err != nil {
		return nil, nil, err
	}
	if key, _, err = pairing.LoadOrCreateKey(g.path("gateway.key")); err != nil {
		return nil, nil, err
	}
	if seal, err = loadSeal(g.path("seal.key")); err != nil {
		return nil, nil, err
	}
	place, err := store.In(g.opts.Dir, g.opts.Store, store.Options{Site: string(g.site.ID()), Migrations: Migrations(), Log: g.log})
	if err != nil {
		return nil, nil, err
	}
	if err := g.several(&place); err != nil {
		return nil, nil, err
	}
	if g.Store, err = store.Open(ctx, place); err == nil {
		err = place.Settled(g.opts.Dir)
	}
	if err != nil {
		return nil, nil, err
	}
	if g.generation, err = generation.Load(ctx, g.Store); err != nil {
		return nil, nil, err
	}
	id := pairing.GatewayIDOf(key.Public().(ed25519.PublicKey))
	g.Ledger, err = ledger.Open(ctx,
		ledger.Options{Store: g.Store, Chain: string(id), Key: key, Retention: g.opts.LedgerRetention, Log: g.log})
	return key, seal, err
}

// keep opens what lasts besides: policy, outcomes, artifacts, the stop switch, nodes.
func (g *Gateway) keep(ctx context.Context, key ed25519.PrivateKey, seal []byte) (err error) {
	g.Tokens, err = principal.New(principal.Options{
		Store: g.Store, Record: g.recordBy, Authority: principal.NewAuthority(func() *policy.Engine { return g.Rulebook.Engine() }),
		CatchUp: g.catchUp(), Log: g.log,
	})
	if err != nil {
		return err
	}
	if err := g.Tokens.Load(ctx); err != nil { // policy must not lock all of them out
		return err
	}
	g.SubAgents = subagent.NewDesk()
	g.Providers, err = provider.Open(ctx,
		provider.Options{Store: g.Store, Registry: g.Registry, Record: g.recordBy, Allow: g.allowProvider, Teller: g.teller,
			Holds: g.holds, Registered: g.registered, SubAgents: g.SubAgents, Log: g.log})
	if err != nil {
		return err
	}
	if err := g.openRules(ctx); err != nil { // they may name tools of providers
		return err
	}
	if g.Outcomes, err = outcome.Open(outcome.Options{Store: g.Store, Key: seal, Log: g.log}); err != nil {
		return err
	}
	g.Artifacts, err = outcome.OpenArtifacts(outcome.ArtifactOptions{
		Store: g.Store, Dir: g.path("artifacts"), Key: seal, Quota: g.opts.ArtifactQuota, TTL: g.opts.ArtifactTTL, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.Governance = governance.New(governance.Options{
		Store: g.Store, Ledger: g.Ledger, Retained: g.Artifacts.Retained, Own: g.ownWork, Log: g.log,
	})
	g.Governance.Register(g.metrics)
	g.Drift = events.New(events.Options{Store: g.Store, Ledger: g.Ledger, Manifest: g.manifest})
	if err := g.Drift.Load(ctx); err != nil {
		return err
	}
	if g.Turns, err = turn.New(turn.Options{Store: g.Store, Record: g.recordAt, Lease: g.opts.TurnLease}); err != nil {
		return err
	}
	if g.Jobs, err = job.Open(job.Options{Store: g.Store, Key: seal, Record: g.recordBy, Spread: g.spreadAttends}); err != nil {
		return err
	}
	g.SubAgents.Serve(g.Jobs)
	if g.Workers, err = worker.New(worker.Options{
		Store: g.Store, Tokens: g.Tokens, Site: g.site.ID(), Door: g.workerDoor, Record: g.recordBy, Log: g.log,
	}); err != nil {
		return err
	}
	if g.Knowledge, err = knowledge.New(knowledge.Options{Store: g.Store, Record: g.recordBy}); err != nil {
		return err
	}
	if g.Switch, err = stop.New(stop.Options{Store: g.Store, Record: g.recordBy, Log: g.log}); err != nil {
		return err
	}
	if err := g.Switch.Load(ctx); err != nil {
		return err
	}
	g.Nodes, err = nodes.New(nodes.Options{
		Store: g.Store, Site: g.site, Key: key, Addr: g.opts.QUIC, NoTCP: onePort(g.opts.HTTP, g.opts.QUIC), Advertise: g.advertise(),
		Version: g.opts.Version, CatalogHash: g.Registry.Founded(),
		Record: g.recordNode, Head: g.head, OnNodeHead: g.nodeHead, Stop: g.Switch.Now, OnStop: g.nodeTurned, OnVerdict: g.verdict,
		Mark: g.site.Mark(g.generation.Generation), OnSuperseded: g.onSuperseded,
		Origins: g.origins, Others: func() [][]string { return g.opts.Others }, Log: g.log,
		TakesSteps: func(c capabilities.CapabilityID) bool {
			d, ok := g.Registry.ByCapability(c)
			return ok && d.TakesSteps()
		},
	})
	if err != nil {
		return err
	}
	return g.openBus(ctx)
}

// serve makes the pipeline and the surfaces over what keep opened.
func (g *Gateway) serve(ctx context.Context) (err error) {
	if g.Lanes, err = lane.New(lane.Options{Store: g.Store, Record: g.recordBy, OnClosed: g.laneClosed, Log: g.log}); err != nil {
		return err
	}
	if err := g.Lanes.Load(ctx); err != nil {
		return err
	}
	wait := g.opts.ApprovalWait
	if wait == 0 {
		wait = -1
	}
	g.Consent, err = consent.New(consent.Options{
		Store: g.Store, Record: g.recordBy, Snapshot: func() string {
			return g.Rulebook.Engine().
				SnapshotID()
		}, Stopped: func() bool { _, on := g.Switch.Now(); return on }, Wait: wait, Input: g.movesInput(),
		Manifest: manifests(g.Registry), Hosts: g.ownerHosts, Bound: callBound(g.Registry), Owner: g.Nodes.Owner, Valid: g.Tokens.Valid,
		Log: g.log,
	})
	if err != nil {
		return err
	}
	if err := g.Consent.Load(ctx); err != nil {
		return err
	}
	g.asked = g.everywhere()
	g.endGrantsOfGone(ctx)
	g.Tokens.OnRevoke(func(token string) { go g.tokenEnded(context.WithoutCancel(ctx), token) }) // it must not block
	if err := g.loadHooks(); err != nil {
		return err
	}
	if err := g.openSecrets(ctx); err != nil {
		return err
	}
	g.Tasks = task.New(task.Options{
		Store: g.Store, Ledger: g.Ledger, Outcomes: g.Outcomes, Registry: g.Registry, Consent: g.Consent, Nodes: g.Nodes.Changed,
		Known: g.known, Cancel: g.endTask, Patience: g.opts.ApprovalWait, Log: g.log,
	})
	g.Selector = newSelector(g.Registry, g.Ledger, g.metrics)
	g.count()
	g.Dispatcher = dispatch.New(dispatch.Options{
		Selector: g.Selector, Working: g.Lanes, Through: g.Providers.Through, Withheld: g.Providers.Withheld,
		Registry: g.Registry, Policy: g.Rulebook.Engine, Nodes: g.hosts, Lanes: g.Lanes, Store: g.Store, Ledger: g.Ledger,
		Outcomes: g.Outcomes, Artifacts: g.Artifacts, Fetcher: fetcher{g.Nodes}, Consent: g.Consent, Deferred: g.Tasks, Secrets: g.Secrets,
		Stop: g.Switch.Now, AwaitNodes: true, Drift: g.Drift, Program: g.program,
		Traces: g.told(), Metrics: dispatch.NewMetrics(g.metrics), Log: g.log,
	})
	if g.Works, err = admin.New(admin.Options{
		Policy: g.Rulebook.Engine, Tools: g.Registry, Store: g.Store, Ledger: g.Ledger, Log: g.log,
	}); err != nil {
		return err
	}
	if err := g.openSkills(); err != nil {
		return err
	}
	g.Providers.Serve(g.Dispatcher, g.Consent, approvals{g}, g.hosts, g.Secrets)
	g.files = &front.Artifacts{Store: &shelf{Artifacts: g.Artifacts, g: g, read: map[reader]time.Time{}}, Tools: g.Dispatcher}
	if g.Live, err = live.New(live.Options{Calls: g.Dispatcher, Grants: g.Consent, ICE: g.opts.ICE, Log: g.log}); err != nil {
		return err
	}
	if err := g.openPush(ctx); err != nil {
		return err
	}
	if err := g.openClients(ctx); err != nil {
		return err
	}
	if g.Front, err = g.newFront(); err != nil {
		return err
	}
	g.mcp, err = mcp.New(mcp.Options{
		Dispatcher: g.Dispatcher, Tools: g.Registry, Lanes: g.Lanes, Working: g.Lanes, Tokens: g.Tokens, Consent: g.asked, Artifacts: g.files,
		Skills: g.Skills, Tasks: g.Tasks, Version: g.opts.Version, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.mcp.Mount(g.Front)
	if err := g.mountREST(); err != nil {
		return err
	}
	g.share()
	if err := g.meet(ctx); err != nil {
		return err
	}
	if err := g.Front.Listen(); err != nil { // first: nodes are told where
		return err
	}
	g.quic, err = g.Nodes.Listen(ctx)
	return err
}

// Run serves until ctx ends or something essential fails, and returns after
// everything it started has ended.
func (g *Gateway) Run(ctx context.Context) error {
	// A start is short and is not left half done: who wants it to end at once gets a
	// start and an end.
	starting := context.WithoutCancel(ctx)
	if err := errors.Join(g.Works.Recover(starting), g.Dispatcher.Recover(starting)); err != nil {
		return err
	}
	if err := g.Ledger.Append(starting, ledger.Draft{Kind: ledger.KindStarted, Body: packet.Started{
		Version: g.opts.Version, Snapshot: g.Rulebook.Engine().SnapshotID(), Site: g.site.ID(),
	}}); err != nil {
		return err
	}
	if err := g.Bus.Start(starting); err != nil {
		return err
	}
	g.startBusForWorkers(starting)
	g.Registry.Announce()
	// The rooms that record outlive those that act: surfaces, pipeline and nodes end first.
	inner, stopInner := context.WithCancel(context.WithoutCancel(ctx))
	defer stopInner()
	base, baseCtx := errgroup.WithContext(inner)
	base.Go(func() error { return g.Store.Run(baseCtx) })
	base.Go(func() error { return g.Ledger.Run(baseCtx) })
	base.Go(func() error { return g.Outcomes.Run(baseCtx) })
	base.Go(func() error { return g.Artifacts.Run(baseCtx) })
	base.Go(func() error { return g.Knowledge.Run(baseCtx) })
	base.Go(func() error { return g.Turns.Run(baseCtx) })
	base.Go(func() error { return g.Jobs.Run(baseCtx) })
	base.Go(func() error { return g.Governance.Run(baseCtx) })
	base.Go(func() error { return g.keepTraces(baseCtx) })

	// The rooms that act end after the calls that run, so that their callers get their results.
	acting, stopActing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopActing()
	act, actCtx := errgroup.WithContext(acting)
	act.Go(func() error {
		select {
		case <-g.leaving.over():
			g.Drain()
			stopActing()
		case <-ctx.Done():
			g.Drain()
			stopActing()
		case <-actCtx.Done():
		}
		return nil
	})
	act.Go(func() error { return g.Nodes.Run(actCtx) })
	act.Go(func() error { return g.Bus.Run(actCtx) })
	act.Go(func() error { return g.Dispatcher.Run(actCtx) })
	act.Go(func() error { return g.keepTasks(actCtx) })
	act.Go(func() error { return g.Lanes.Run(actCtx) })
	act.Go(func() error { return g.Providers.Run(actCtx) })
	act.Go(func() error { return g.SignIns.Run(actCtx) })
	act.Go(func() error { return g.Clients.Run(actCtx) })
	act.Go(func() error { return g.Live.Run(actCtx) })
	act.Go(func() error { return g.keepHeads(actCtx) })
	act.Go(func() error { return g.tell(actCtx) })
	act.Go(func() error { return g.mails(actCtx) })
	act.Go(func() error { return g.Push.Run(actCtx) })
	act.Go(func() error { return g.followRules(actCtx) })
	act.Go(func() error { return g.askDevices(actCtx) })
	act.Go(func() error { return g.keepTurns(actCtx) })
	act.Go(func() error { return g.heedSuperseded(actCtx) })
	act.Go(func() error { return g.mcp.Run(actCtx) })
	act.Go(func() error { return g.Front.Run(actCtx) })
	act.Go(func() error { // a store that fails ends everything
		select {
		case <-actCtx.Done():
			return nil
		case <-baseCtx.Done():
			return errors.New("the store failed")
		}
	})
	actErr := act.Wait()
	stopInner()
	if err := base.Wait(); err != nil {
		return err
	}
	return actErr
}

// Drain lets no call begin any more, and waits for those that run, StopGrace at most. Run does it
// when its context ends; whoever ends a node first, before that.
func (g *Gateway) Drain() {
	if g.opts.StopGrace <= 0 {
		return
	}
	g.drain.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), g.opts.StopGrace)
		defer cancel()
		if left := g.Dispatcher.Drain(ctx); left > 0 {
			g.log.Warn("gateway.cut_off", "calls", left, "after", g.opts.StopGrace)
		}
	})
}

// Close closes the store and the listeners. Idempotent; for after Run, or
// instead of it.
func (g *Gateway) Close() {
	g.leaving.end()
	if g.Front != nil {
		_ = g.Front.Close()
	}
	if g.Nodes != nil {
		_ = g.Nodes.Close()
	}
	if g.Bus != nil {
		g.Bus.Close()
	}
	if g.Artifacts != nil {
		_ = g.Artifacts.Close()
	}
	if g.Store != nil {
		if err := g.Store.Close(); err != nil {
			g.log.Error("store.close", "err", err)
		}
	}
}

// HTTPAddr is where the HTTP surfaces listen.
func (g *Gateway) HTTPAddr() net.Addr { return g.Front.Addr() }

// QUICAddr is where nodes dial.
func (g *Gateway) QUICAddr() net.Addr { return g.quic }

// Site is the site's ID, which nodes pin.
func (g *Gateway) Site() capabilities.SiteID { return g.site.ID() }

// Rules is the policy in force.
func (g *Gateway) Rules() *policy.Engine { return g.Rulebook.Engine() }

// Token makes sure that the file at path holds a token for spec that works, and
// writes a new one if it does not. The file is open to its owner only.
func (g *Gateway) Token(ctx context.Context, path string, spec principal.Spec) error {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("token: %w", err)
	}
	if who, err := g.Tokens.Authenticate(strings.TrimSpace(string(data))); err == nil && who.Principal == spec.Principal &&
		who.Role == spec.Role {
		return nil
	}
	_, secret, err := g.Tokens.Create(ctx, principal.Site, spec)
	if err != nil {
		return err
	}
	return pairing.SaveFile(path, []byte(secret.Reveal()+"\n"))
}

func (g *Gateway) path(name string) string { return filepath.Join(g.opts.Dir, name) }

func (g *Gateway) advertise() func() []string {
	if len(g.opts.Advertise) == 0 {
		return nil
	}
	return func() []string { return g.opts.Advertise }
}

func (g *Gateway) recordNode(tx *store.Tx, kind string, node capabilities.NodeID, body any) error {
	_, err := g.Ledger.AppendIn(tx, ledger.Draft{Kind: ledger.Kind(kind), Node: node, Body: body})
	return err
}

func (g *Gateway) recordBy(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) error {
	_, err := g.recordAt(tx, kind, by, body)
	return err
}

// recordAt is recordBy for who wants to know the packet's number.
func (g *Gateway) recordAt(tx *store.Tx, kind string, by capabilities.PrincipalID, body any) (uint64, error) {
	made, err := g.Ledger.AppendIn(tx, ledger.Draft{Kind: ledger.Kind(kind), Principal: by, Body: body})
	if err != nil {
		return 0, err
	}
	return made[0].Seq, nil
}
