package dispatch

import (
	"context"
	"encoding/json"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/gateway/secret"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/gateway/trace"
)

// Nodes is the transport to devices and the truth about them; gateway/nodes
// implements it.
type Nodes interface {
	// Snapshot returns every node of the roster as it stands now.
	Snapshot() []route.Node
	// Dispatch sends a ticket and waits for its answer. CodeNodeDisconnected means
	// that no handler started; CodeUnknownOutcome that nobody here can tell.
	Dispatch(ctx context.Context, node capabilities.NodeID, t *wire.Ticket,
		progress func(capabilities.Progress)) (wire.Answer, []capabilities.Blob, error)
	// Deliver is Dispatch; seal is called, at most once, with the key of a node that has
	// accepted the ticket.
	Deliver(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
		seal func(key []byte) ([]byte, error)) (wire.Answer, []capabilities.Blob, error)
	// Conduct is Dispatch; order answers each step that the node asks for, beside others,
	// and ended takes how those that had a ticket ended.
	Conduct(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
		order func(context.Context, *wire.Step) *wire.StepOrder, ended func(*wire.StepEnd)) (wire.Answer, []capabilities.Blob, error)
	// Converse is Dispatch for a call for which people may be asked; elicit answers each form that
	// the node sends, host each host that it asks about, beside others; nil: none are answered. A node
	// that cannot be answered gets the ticket as by Dispatch.
	Converse(ctx context.Context, node capabilities.NodeID, t *wire.Ticket, progress func(capabilities.Progress),
		elicit func(context.Context, *wire.Elicit) *wire.Elicited,
		host func(context.Context, *wire.HostAsk) *wire.HostAnswer) (wire.Answer, []capabilities.Blob, error)
	// Scene asks a node what a call would meet there; empty where it cannot tell.
	Scene(ctx context.Context, node capabilities.NodeID, ask wire.SceneAsk) (wire.Scene, error)
	// Ask asks a node's journal what became of calls.
	Ask(ctx context.Context, node capabilities.NodeID, ask *wire.JournalAsk) ([]wire.JournalState, error)
	// Order returns the hosts of a provider in the order in which they are tried: several are
	// interchangeable, and the least busy comes first.
	Order(hosts []capabilities.NodeID) []capabilities.NodeID
	// Changed is closed at the next change of the snapshot.
	Changed() <-chan struct{}
}

// Lanes says which nodes are attached to a lane; gateway/lane implements it.
type Lanes interface {
	// Attached returns the attached nodes; the slice is shared.
	Attached(lane capabilities.LaneID) []capabilities.NodeID
}

// Consent is a person's word; gateway/consent implements it.
type Consent interface {
	// Await returns the grant that a call which policy asks about goes on with.
	Await(context.Context, consent.Ask) (consent.Permit, error)
	// Covering returns the grant that a call would go on with now, without using it; with no ID:
	// there is none. reachable: a person would be asked.
	Covering(*consent.Ask) (g consent.Grant, reachable bool)
	// Ended says that the call which went on with a grant is over.
	Ended(consent.Permit)
	// Elicit puts what a running call's program asks to a person, and waits for the answer.
	Elicit(context.Context, consent.Elicitation) (consent.Reply, error)
	// AskHost asks a person whether a running call may connect to a host, and waits for the answer.
	AskHost(context.Context, consent.HostAsk) (consent.HostSaid, error)
	// Stands reports whether what a call went on with is still granted.
	Stands(consent.Permit) bool
	// Uses is told a call that goes on without a permit; over ends it.
	Uses(tool capabilities.ToolID, node capabilities.NodeID, by capabilities.PrincipalID) (over func())
	// SpendIn takes one use of it in the commit that records the call.
	SpendIn(*store.Tx, consent.Permit) error
}

// Deferred keeps calls that nobody answered in time; gateway/task implements it.
type Deferred interface {
	// Keep keeps a call for life, while approval waits for a person. The error that it
	// returns is what the caller gets.
	Keep(ctx context.Context, a Asked, approval string, life time.Duration) *capabilities.Error
	// Earlier returns the outcome of the identical call that was kept: its result, which is
	// taken with that, or CodeApprovalPending. nil, nil: there is none.
	Earlier(ctx context.Context, a Asked) (*capabilities.Result, *capabilities.Error)
	// StartIn makes a kept call run, in the commit of its call. CodeNotFound for one that
	// was dropped, whose time is over, or that ran already.
	StartIn(tx *store.Tx, task string, call capabilities.CallID) error
}

// Asked is a call as Deferred keeps it.
type Asked struct {
	Caller
	Tool      capabilities.ToolID
	RequestID capabilities.RequestID
	Surface   string
	Args      json.RawMessage     // as the caller sent them
	Canonical json.RawMessage     // as they were found to fit
	Target    capabilities.NodeID // the requested node
	Manifest  string              // hash of the tool's manifest
	Handle    bool                // its caller asks after it by the task's ID
	Trace     trace.Context       // where it stands in a trace; zero: nobody is told
}

// Secrets is what agents may name and nodes get; gateway/secret implements it.
type Secrets interface {
	// Usable returns the references that a principal may use with a tool.
	Usable(capabilities.PrincipalID, capabilities.ToolID) []secret.Reference
	// Find returns the one that an ID or an alias names among them.
	Find(p capabilities.PrincipalID, tool capabilities.ToolID, id, alias string) (secret.Reference, error)
	// Resolve returns the value.
	Resolve(context.Context, secret.Reference) (capabilities.Secret, error)
}

// Artifacts keeps what calls captured; gateway/outcome implements it.
type Artifacts interface {
	Receive(context.Context, outcome.Kept) (*outcome.Incoming, error)
	Open(outcome.Kept) (*outcome.Content, error)
}

// Fetcher brings artifacts from their nodes; gateway/nodes does it.
type Fetcher interface {
	// Fetch goes on with one artifact. CodeNodeDisconnected means that a later Fetch
	// can go on; every other error is the last.
	Fetch(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte, in *outcome.Incoming) error
	// Forget says that it is wanted no more.
	Forget(ctx context.Context, node capabilities.NodeID, call capabilities.CallID, id [32]byte)
}

// Traces is told how calls went; gateway/trace implements it.
type Traces interface {
	// End takes a call that ended, and does not block.
	End(trace.Call)
}

// Drift answers what drifted; gateway/drift/events implements it.
type Drift interface {
	// Refuses says why a tool is not called, or not by that runner; nil: it may be.
	Refuses(tool capabilities.ToolID, runner func() drift.Runner) *capabilities.Error
	// Raised is by how many levels the risk of a tool is raised on a node.
	Raised(tool capabilities.ToolID, node capabilities.NodeID) int
	// EndIn records what drifted in a call that ended, and what is done about it. last is the
	// packet of its end.
	EndIn(tx *store.Tx, e *events.Ended, last *ledger.Packet) error
}
