package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/handrail-dev/handrail/agent/guard"
	"github.com/handrail-dev/handrail/agent/journal"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/agent/notice"
	"github.com/handrail-dev/handrail/agent/owner"
	"github.com/handrail-dev/handrail/agent/runner"
	"github.com/handrail-dev/handrail/agent/spool"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/platform"
)

const stopFile = "stop.json"

// Options of New; required unless a default is named.
type Options struct {
	// Dir holds what the node keeps: identity, journal, the owner's rules, the stop
	// switch. It must exist and be open to its owner only.
	Dir      string
	Handlers []capabilities.Handler
	Catalog  *catalog.Catalog // default: the embedded one
	// Hosted are the tools of the providers that this node hosts, also one of Handlers.
	// Default: it hosts none.
	Hosted Hosted
	// HostedChanged says that what is hosted, or whether it is ready, changed. Default: never.
	HostedChanged <-chan struct{}
	// OwnerRules are added to the owner's file: what a flag of the owner's says.
	OwnerRules []policy.Source
	// Proxy is the HTTP proxy to the gateway where UDP is dropped; default: what the environment says.
	Proxy link.Proxy
	// Addrs replaces the addresses the node joined with; default: those.
	Addrs   []string
	Version string
	// UploadRoots are the folders that relative paths in calls are taken below, for
	// what the owner says about folders; default: none.
	UploadRoots []string
	// Notifier shows the person what is in use, beside the status file; default: none.
	Notifier platform.Notifier
	// Warm has handlers start at once what their first call would wait for, as where a
	// person has just begun to work with this node; default: with the first call.
	Warm   bool
	HotKey string // the stop keys, in words for people; default: there are none
	// Runners stand ready for what calls start; default: none do.
	Runners Runners
	// HearAnswers calls heard each time that the person says yes or no by keys of this
	// device, until ctx ends; the error says why that cannot be heard. Yes and No are those
	// keys, in words. Default: nobody is asked here.
	HearAnswers func(ctx context.Context, heard func(allow bool)) error
	Yes, No     string
	OnState     func(link.State)     // told each change of the connection; default: nobody
	OnQuestion  func(owner.Question) // told each question that waits for the person; default: nobody
	Log         *slog.Logger         // default: discards
}

// Runners are the processes that programs start in.
type Runners interface {
	// Run keeps some ready until ctx ends, and returns after they ended.
	Run(ctx context.Context) error
	// Ready says how many stand ready for a class, and how many programs since the start found one and
	// did not.
	Ready(capabilities.IsolationClass) (standing uint32, warm, cold uint64)
}

// Agent is one node agent, put together.
type Agent struct {
	opts     Options
	identity *link.Identity
	runner   *runner.Runner
	guard    *guard.Guard
	stop     *guard.StopSwitch
	rules    *owner.Rules
	desk     *owner.Desk
	// stoppedBy is whose switch stopped the node last; the switch calls one at a time.
	stoppedBy string
	made      time.Time
	journal   *journal.Journal
	spool     *spool.Spool
	link      *link.Link
	board     *notice.Board
	runs      callLog // who is told of each call
	asked     questions
	linked    atomic.Pointer[link.State]
	node      atomic.Pointer[policy.Node] // this node as the owner's rules see it
	logKey    atomic.Pointer[chain.Key]   // what the journal's head is signed with
}

// New reads the identity, the owner's rules and the journal. A device that never
// joined a site is CodeNodeNotPaired.
func New(o Options) (a *Agent, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Catalog == nil {
		if o.Catalog, err = catalog.Embedded(); err != nil {
			return nil, err
		}
	}
	a = &Agent{opts: o, runs: watchersOf(o), made: time.Now(), asked: questions{news: make(chan struct{}, 1)}}
	a.board = a.openBoard()
	a.identity, err = link.LoadIdentity(o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, capabilities.Errorf(capabilities.CodeNodeNotPaired, "this device has not joined a site").
			WithAction(capabilities.Action{Key: capabilities.ActionJoinSite}, "Have it paired.")
	}
	if err != nil {
		return nil, err
	}
	a.node.Store(&policy.Node{ID: a.identity.Node, Label: a.identity.Label, Platform: runtime.GOOS, Trust: a.identity.Trust})
	if a.rules, err = openOwner(o); err != nil {
		return nil, err
	}
	if a.stop, err = guard.OpenStopSwitch(filepath.Join(o.Dir, stopFile), string(a.identity.Site),
		func(on bool) { a.onTurn(on); a.turned(on) }); err != nil {
		return nil, err
	}
	a.journal, err = journal.Open(journal.Options{
		Dir: filepath.Join(o.Dir, "journal", string(a.identity.Node)), Chain: string(a.identity.Node), Key: a.identity.Key, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	// Only now: what another process of this folder asks is not ours to clear away.
	if a.desk, err = a.openDesk(); err != nil {
		return nil, errors.Join(err, a.journal.Close())
	}
	a.guard = guard.New(guard.Options{
		Node: func() policy.Node { return *a.node.Load() }, Owner: a.rules.Judge, Stop: a.stop, Desk: a.desk, Shown: shown(o.tool),
		InSession: func(id capabilities.ToolID) bool {
			d, ok := o.tool(id)
			return ok && d.InSession()
		},
	})
	if a.spool, err = openSpool(o); err != nil {
		return nil, errors.Join(err, a.journal.Close())
	}
	open, err := readDeliveries(filepath.Join(o.Dir, deliveriesFile))
	if err != nil {
		return nil, errors.Join(err, a.spool.Close(), a.journal.Close())
	}
	var ready func(capabilities.IsolationClass) (uint32, uint64, uint64)
	if o.Runners != nil {
		ready = o.Runners.Ready
	}
	a.runner, err = runner.New(runner.Options{
		Ready:      ready,
		Deliveries: open, KeepDeliveries: keepDeliveries(filepath.Join(o.Dir, deliveriesFile)),
		Handlers: o.Handlers, Catalog: o.Catalog, Hosted: o.hosted(), Guard: a.guard,
		Journal: shownJournal{a.journal, a.board, a.runs}, Spool: a.spool, Refused: a.refused, Log: o.Log,
	})
	if err != nil {
		return nil, errors.Join(err, a.spool.Close(), a.journal.Close())
	}
	if a.link, err = link.New(a.linkOptions()); err != nil {
		return nil, errors.Join(err, a.spool.Close(), a.journal.Close())
	}
	return a, nil
}

func (a *Agent) linkOptions() link.Options {
	o := a.opts
	host, _ := os.Hostname() // shown to people only
	return link.Options{
		Dir: o.Dir, Addrs: o.Addrs, Proxy: o.Proxy, Log: o.Log, OnState: a.onState,
		Serve: func(ctx context.Context, t *wire.Ticket, s link.Sink) { a.runner.Serve(ctx, t, s) },
		Attached: func(tool capabilities.ToolID) bool {
			d, known := o.tool(tool)
			return known && d.Attached
		},
		Journal: a.runner.States, Artifacts: spooled{a.spool}, Scene: a.scene,
		OnQuestions: a.onQuestions(), OnVerdictTaken: a.onVerdictTaken,
		Hello: func() wire.Hello {
			return wire.Hello{
				CatalogHash: o.Catalog.Hash(), Agent: o.Version,
				Platform: runtime.GOOS, Arch: runtime.GOARCH, Host: host, LogHead: a.head(), LogKey: a.logKey.Load()[:],
				Recall: a.journal.Recall(),
			}
		},
		Readiness: a.readiness, ReadinessChanged: o.HostedChanged, Stop: a.stops, StopChanged: a.stop.Changed, OnStop: a.heedSite,
		OnLaneClosed: a.runner.CloseLane, OnSecretsDone: a.runner.SecretsDone, OnOrigins: a.avoid, OnFloor: a.guard.Connected, Head: a.head,
		Pools: a.runner.Pools, OnGatewayHead: a.keepGatewayHead, OnRestored: a.siteRestored,
		OnKey:   a.onKey,
		Profile: pairing.Profile{Host: host, Platform: runtime.GOOS, Arch: runtime.GOARCH, Agent: o.Version, Offers: a.Offers()},
	}
}

// avoid tells handlers where the gateway's own pages are.
func (a *Agent) avoid(origins []string) {
	for _, h := range a.opts.Handlers {
		if g, ok := h.(capabilities.GatewayAvoider); ok {
			g.AvoidGateway(origins)
		}
	}
}

func (a *Agent) onState(s link.State) {
	if s.Node != "" {
		n := *a.node.Load()
		n.ID = s.Node
		a.node.Store(&n)
	}
	a.linked.Store(&s)
	a.board.Turned()
	if a.opts.OnState != nil {
		a.opts.OnState(s)
	}
}

// Node is this node's ID.
func (a *Agent) Node() capabilities.NodeID { return a.node.Load().ID }

// Offers lists what this device could do.
func (a *Agent) Offers() []capabilities.CapabilityID { return Offers(a.opts.Handlers) }

// Offers lists what handlers implement, for a device that is about to join.
func Offers(handlers []capabilities.Handler) []capabilities.CapabilityID {
	var all []capabilities.CapabilityID
	for _, h := range handlers {
		all = append(all, h.Capabilities()...)
	}
	return all
}

// Readiness returns the present truth of every capability.
func (a *Agent) Readiness(ctx context.Context) []capabilities.Readiness {
	return a.readiness(ctx)
}

// Run keeps the node in service until ctx ends (nil) or only a person can help.
func (a *Agent) Run(ctx context.Context) error {
	defer func() {
		if err := a.runner.Close(); err != nil {
			a.opts.Log.Warn("node.close", "err", err)
		}
		if err := a.journal.Close(); err != nil {
			a.opts.Log.Error("journal.close", "err", err)
		}
		_ = a.spool.Close()
	}()
	// The journal outlives the link: the last answers still go into it.
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, groupCtx := errgroup.WithContext(inner)
	group.Go(func() error { return a.journal.Run(groupCtx) })
	group.Go(func() error { return a.heedOwner(groupCtx) })
	group.Go(func() error { return a.board.Run(groupCtx) })
	group.Go(func() error { return a.heedRules(groupCtx) })
	group.Go(func() error { return a.sweepSpool(groupCtx) })
	group.Go(func() error { return a.heedQuestions(groupCtx) })
	if a.opts.Runners != nil {
		group.Go(func() error { return a.opts.Runners.Run(groupCtx) })
	}
	if a.opts.Warm {
		group.Go(func() error { a.warm(groupCtx); return nil })
	}
	linkCtx, stopLink := context.WithCancel(ctx)
	defer stopLink()
	context.AfterFunc(groupCtx, stopLink) // a journal that fails ends the node
	err := a.link.Run(linkCtx)
	stop()
	return errors.Join(err, group.Wait())
}

// Leave has Run end (nil) once no call has run for quiet. It cuts no call off.
func (a *Agent) Leave(quiet time.Duration) { a.link.Leave(quiet) }

func (a *Agent) head() *wire.Head {
	h := a.journal.Head()
	if h.Sig == (chain.Sig{}) {
		return nil
	}
	return &wire.Head{Seq: h.Seq, Hash: h.Hash, Time: h.Time, Sig: h.Sig[:]}
}

// onKey has the journal signed with the key that the gateway knows this node by.
func (a *Agent) onKey(key ed25519.PrivateKey) {
	public := chain.PublicKey(key)
	a.logKey.Store(&public)
	a.journal.SetKey(key)
}

// siteRestored goes on with the ledger of a site that was restored, and keeps the proof of the one
// before.
func (a *Agent) siteRestored(generation uint64) {
	if err := a.journal.SetHeadsAside(generation); err != nil {
		a.opts.Log.Error("ledger.heads_not_kept", "generation", generation, "err", err)
	}
}

// keepGatewayHead keeps what proves a truncation of the gateway's ledger.
func (a *Agent) keepGatewayHead(gateway ed25519.PublicKey, h wire.Head) {
	head := chain.Head{Chain: string(pairing.GatewayIDOf(gateway)), Seq: h.Seq, Hash: h.Hash, Time: h.Time}
	if len(h.Sig) != len(head.Sig) {
		return
	}
	copy(head.Key[:], gateway)
	copy(head.Sig[:], h.Sig)
	if err := a.journal.KeepGatewayHead(head); err != nil {
		a.opts.Log.Error("ledger.head", "gateway", head.Chain, "err", err)
	}
}
