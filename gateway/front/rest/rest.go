package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/lane"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/tree"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/registry"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/pairing"
)

// Roster is the nodes and the invitations to them; gateway/nodes implements it.
type Roster interface {
	Views() []nodes.View
	View(capabilities.NodeID) (nodes.View, error)
	Snapshot() []route.Node
	Changed() <-chan struct{}
	Approve(context.Context, capabilities.NodeID, nodes.Approval) (nodes.View, error)
	Deny(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (nodes.View, error)
	Revoke(ctx context.Context, id capabilities.NodeID, by capabilities.PrincipalID, reason string) (nodes.View, error)
	Change(context.Context, capabilities.NodeID, nodes.Edit) (nodes.View, error)
	Invite(context.Context, nodes.InviteSpec) (nodes.Invite, pairing.Paste, error)
	Invites(context.Context) ([]nodes.Invite, error)
	Withdraw(ctx context.Context, id pairing.InviteID, by capabilities.PrincipalID) error
}

// Ledger is what is read of the ledger; gateway/ledger implements it.
type Ledger interface {
	Packets(context.Context, ledger.Query) ([]ledger.Packet, error)
	Head() chain.Head
	Key() chain.Key
	Tip() (seq uint64, hash chain.Hash)
	Changed() <-chan struct{}
	Export(ctx context.Context, w io.Writer) error
	Checkpoint(ctx context.Context, since uint64) (ledger.Checkpoint, error)
	Prove(ctx context.Context, seq uint64) (*tree.Proof, error)
}

// Tools is all tools there are; gateway/registry implements it.
type Tools interface {
	Get(capabilities.ToolID) (*catalog.Descriptor, bool)
	All() []*catalog.Descriptor
	Now() *registry.View
	Def(capabilities.ToolID) (registry.ToolDef, bool)
	Validate(id capabilities.ToolID, raw []byte) (registry.ValidationResult, error)
}

// Lanes is the lanes; gateway/lane implements it.
type Lanes interface {
	front.Lanes
	Claim(ctx context.Context, owner capabilities.PrincipalID, lane capabilities.LaneID) error
	Attach(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID) (lane.Lane, error)
	Detach(ctx context.Context, by principal.Identity, lane capabilities.LaneID, node capabilities.NodeID) (lane.Lane, error)
	Attached(lane capabilities.LaneID) []capabilities.NodeID
	List(owner capabilities.PrincipalID) []lane.Lane
}

// Consent is what waits for a person, and the grants; gateway/consent implements
// it.
type Consent interface {
	Approvals() []consent.Approval
	Approval(id string) (consent.Approval, error)
	Told(id string, whole bool) (consent.Told, bool)
	Picture(id string) ([]byte, []consent.Spot, error)
	Answer(ctx context.Context, id string, a consent.Answer) (consent.Approval, error)
	Extend(ctx context.Context, id string, by capabilities.PrincipalID) (consent.Approval, error)
	Owns(consent.Approval) bool
	Grants() []consent.Grant
	Grant(context.Context, consent.Spec) (consent.Grant, error)
	Revoke(ctx context.Context, id string, by capabilities.PrincipalID) error
}

// Site is what this gateway is; it does not change while it runs.
type Site struct {
	SiteID    capabilities.SiteID
	GatewayID string
	Version   string
	StartedAt time.Time
	HTTPAddr  string // host:port
	QUICAddr  string // host:port
	ReadOnly  bool   // its disk is full
	Draining  bool   // it takes no new calls
	BaseURL   string // such as "http://127.0.0.1:7480"
	PublicURL string // for other devices; empty: none was named
	// Fingerprint is that of the certificate of HTTPS, as browsers show it; empty: none.
	Fingerprint string
	// Door is where other devices find the surfaces, if the certificate is known by its
	// fingerprint alone; nil otherwise.
	Door *pairing.Door
}

// Options of New; all required unless a default is named.
type Options struct {
	Dispatcher front.Dispatcher
	Tools      Tools
	Lanes      Lanes
	Drain      Drain // default: nobody drains the gateway
	Tokens     *principal.Tokens
	Roster     Roster
	Satellites Satellites          // default: there are none
	Hosts      func() []route.Node // nodes and satellites; default: the roster's
	Ledger     Ledger
	Selector   Selector
	Consent    Consent
	Tasks      Tasks
	Running    Running
	Kept       Kept // default: no arguments are
	Drift      Drift
	Turns      Turns            // default: none are kept
	Jobs       Jobs             // default: none are kept
	SubAgents  SubAgents        // default: there are none
	Workers    Workers          // default: none come in from elsewhere
	Memory     Memory           // default: nothing is remembered
	Governance Governance       // default: no numbers are kept
	NodeLogs   NodeLogs         // default: none is read
	Artifacts  *front.Artifacts // default: there are none
	Secrets    Secrets
	Providers  Providers // default: there are none
	SignIns    SignIns   // required with Providers
	Clients    Clients   // default: no client speaks OAuth
	// LocalClients are the MCP clients on the gateway's machine. Default: it looks for none.
	LocalClients LocalClients
	Passkeys     Passkeys
	Live         Live // default: nobody can watch
	Push         Push // default: no browser is told
	// Elsewhere refuses a request that comes from a device whose mouse and keyboard
	// an agent holds, other than but ("": none). Default: none does.
	Elsewhere func(r *http.Request, but capabilities.NodeID) error
	// Sees says whether somebody may watch a node's screen, without asking anybody else.
	// Default: nobody may.
	Sees    func(who principal.Identity, node capabilities.NodeID) bool
	Brake   Brake
	Policy  func() *policy.Engine // the active engine
	Rules   Rules                 // policy sets, staged, in force and past
	Works   Works
	Site    func() Site
	Metrics http.Handler // default: /metrics answers not_found
	Log     *slog.Logger // default: discards
	Now     func() time.Time
}

// Server is the REST surface.
type Server struct {
	opts    Options
	routes  []*endpoint
	within  *http.ServeMux // the same routes, for Ask and Pass
	openAPI func() []byte

	streams streams
	held    held
	drifted drifted
	drawing chan struct{} // one place: a picture takes its pixels' memory
	looking chan struct{} // one place: a verification reads the whole ledger
}

// New makes the surface; it starts nothing.
func New(o Options) (*Server, error) {
	if o.Dispatcher == nil || o.Tools == nil || o.Lanes == nil || o.Tokens == nil || o.Roster == nil || o.Ledger == nil || o.Selector == nil ||
		o.Consent == nil || o.Tasks == nil || o.Running == nil ||
		o.Drift == nil || o.Secrets == nil || o.Passkeys == nil || o.Brake == nil || o.Policy == nil || o.Rules == nil || o.Works == nil ||
		o.Site == nil {
		return nil, errors.New("rest: an Options field that is required is missing")
	}
	if o.Drain == nil {
		o.Drain = noDrain{}
	}
	if o.Live == nil {
		o.Live = dark{}
	}
	if o.Kept == nil {
		o.Kept = nothingKept{}
	}
	if o.Push == nil {
		o.Push = untold{}
	}
	if o.Artifacts == nil {
		o.Artifacts = &front.Artifacts{Store: noArtifacts{}, Tools: o.Dispatcher}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{opts: o, streams: streams{each: map[string]int{}}, looking: make(chan struct{}, 1), drawing: make(chan struct{}, 1)}
	s.routes, s.within = s.table(), http.NewServeMux()
	for _, e := range s.routes {
		s.within.Handle(e.method+" "+e.path, s.serve(e))
	}
	o.Tokens.OnRevoke(s.held.revoked) // for as long as the tokens are there
	s.openAPI = sync.OnceValue(s.document)
	return s, nil
}

// Mount puts the surface at its addresses.
func (s *Server) Mount(f *front.Server) {
	byPath := make(map[string][]string)
	for _, e := range s.routes {
		access := front.Bearer
		if e.action == "" {
			access = front.Open
		}
		f.Handle(e.method+" "+e.path, access, s.serve(e))
		byPath[e.path] = append(byPath[e.path], e.method)
	}
	for path := range byPath {
		if both, others := s.crossing(path); both != "" {
			byPath[both] = slices.Compact(slices.Sorted(slices.Values(slices.Concat(byPath[both], byPath[path], others))))
			delete(byPath, path)
		}
	}
	for path, methods := range byPath {
		if slices.Contains(methods, http.MethodGet) {
			methods = append(methods, http.MethodHead)
		}
		slices.Sort(methods)
		allow := strings.Join(methods, ", ")
		refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allow)
			writeJSON(w, http.StatusMethodNotAllowed, map[string]api.Error{"error": front.ViewError(
				capabilities.Errorf(capabilities.CodeInvalidRequest, "this address takes %s only", allow))})
		})
		if !s.covered(path) {
			f.Handle(path, front.Open, refuse)
			continue
		}
		for _, method := range []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
		} {
			if !slices.Contains(methods, method) {
				f.Handle(method+" "+path, front.Bearer, refuse) // no page of the console asks for it
			}
		}
	}
}

// covered reports whether another route takes this path, too, with a parameter in it. ServeMux
// refuses a pattern without a method beside such a route: for one method the route is the more
// special, for one path the pattern.
func (s *Server) covered(path string) bool {
	parts := strings.Split(path, "/")
	return slices.ContainsFunc(s.routes, func(e *endpoint) bool {
		return e.path != path && slices.EqualFunc(strings.Split(e.path, "/"), parts, func(of, part string) bool {
			return of == part || strings.HasPrefix(of, "{")
		})
	})
}

// crossing returns the one pattern for the addresses that path shares with other routes although
// neither path is the more special one, as /v1/calls/{call}/replay and /v1/calls/request/{request}
// do, and the methods of those routes; "" if there are none. ServeMux takes no patterns without a
// method for both of them.
func (s *Server) crossing(path string) (pattern string, methods []string) {
	parts := strings.Split(path, "/")
	for _, e := range s.routes {
		others := strings.Split(e.path, "/")
		if len(others) != len(parts) || e.path == path {
			continue
		}
		both, mine, theirs, apart := slices.Clone(parts), false, false, false
		for i := range parts {
			a, b := strings.HasPrefix(parts[i], "{"), strings.HasPrefix(others[i], "{")
			mine, theirs = mine || a && !b, theirs || b && !a
			apart = apart || !a && !b && parts[i] != others[i]
			if a || b {
				both[i] = fmt.Sprintf("{p%d}", i)
			}
		}
		if mine && theirs && !apart {
			pattern, methods = strings.Join(both, "/"), append(methods, e.method)
		}
	}
	return pattern, methods
}

// serve is what every route has in common.
func (s *Server) serve(e *endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &visit{w: w, r: r, who: front.From(r.Context()), works: s.opts.Works}
		err := e.admits(c.who)
		if err == nil {
			err = c.checkQuery(e)
		}
		if err == nil {
			err = s.fromElsewhere(c, e)
		}
		if err == nil {
			err = e.run(c)
		}
		if err == nil {
			return
		}
		if left(r.Context(), err) {
			s.opts.Log.Debug("rest.left", "route", e.method+" "+e.path, "principal", c.who.Principal, "err", err)
		} else if code := capabilities.CodeOf(err); code == capabilities.CodeInternal {
			s.opts.Log.Error("rest.failed", "route", e.method+" "+e.path, "principal", c.who.Principal, "err", err, "cause", errors.Unwrap(err))
		}
		if !c.began {
			front.WriteError(w, err)
		}
	})
}

// left reports whether err is no more than that the client went away meanwhile. A request that
// failed of itself is a failure, wherever the client is.
func left(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// writeJSON answers with v. HTML escapes are off: what the ledger hashed stays
// byte for byte what it was.
func writeJSON(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client went away: there is nobody to tell
}
