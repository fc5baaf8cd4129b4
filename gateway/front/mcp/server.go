package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
	"github.com/handrail-dev/handrail/gateway/skill"
)

const (
	// firstStateless is the revision from which a request stands alone: no
	// session, no handshake. The SDK serves it by another handler.
	firstStateless = "2026-07-28"

	defaultSessionTimeout = 4 * time.Hour
	sweepEvery            = time.Minute
	closeTime             = 3 * time.Second

	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	// postedHeader ties a tool call to the HTTP request it came with. It is ours
	// alone: what a client sends under it is overwritten.
	postedHeader = "Handrail-Visit"
)

// Tokens is what the surface asks about tokens whose streams outlive a request.
type Tokens interface {
	// Valid reports whether the token would still be let in.
	Valid(tokenID string) bool
	// OnRevoke has fn called after each revocation; fn does not block.
	OnRevoke(fn func(tokenID string)) (cancel func())
}

// Options of New.
type Options struct {
	Dispatcher front.Dispatcher // required
	Tools      front.Tools      // required
	Lanes      front.Lanes      // required
	Tokens     Tokens           // required
	Working    Working          // default: lanes find nothing
	Consent    Consent          // default: the person at the client is never asked
	Artifacts  *front.Artifacts // default: results link to none
	Tasks      Tasks            // default: no call becomes a task
	Skills     *skill.Shelf     // default: there are no prompts
	Version    string           // of this program, shown to clients; default "dev"
	// TaskAfter is how long a call runs before it becomes a task, where its client takes tasks;
	// default 10 s.
	TaskAfter time.Duration
	// SessionTimeout ends a session that sent nothing for so long; default 4 h.
	SessionTimeout time.Duration
	Log            *slog.Logger     // default: discards
	Now            func() time.Time // default time.Now
}

// Server is the MCP surface. Mount it, then Run it.
type Server struct {
	opts      Options
	stateful  http.Handler // 2025-03-26 … 2025-11-25
	stateless http.Handler // 2026-07-28 and later
	tools     sync.Map     // toolKey → *sdk.Tool
	closers   sync.WaitGroup

	posts    sync.Map // string → *posted
	nextPost atomic.Uint64

	stateKey [32]byte // signs what clients carry for us; of this process only

	maxViews, maxSessions int // per token

	mu     sync.RWMutex
	ending bool // Run waits for closers: no task begins to be waited for
	views  map[viewKey]*view
}

// New makes the surface; it starts nothing.
func New(o Options) (*Server, error) {
	if o.Dispatcher == nil || o.Tools == nil || o.Lanes == nil || o.Tokens == nil {
		return nil, errors.New("mcp: Options.Dispatcher, Tools, Lanes and Tokens are required")
	}
	if o.Working == nil {
		o.Working = nothingFound{}
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.TaskAfter <= 0 {
		o.TaskAfter = defaultTaskAfter
	}
	if o.SessionTimeout <= 0 {
		o.SessionTimeout = defaultSessionTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{opts: o, views: make(map[viewKey]*view), maxViews: maxViews, maxSessions: maxSessions}
	rand.Read(s.stateKey[:]) // never fails
	server := func(r *http.Request) *sdk.Server { return viewOf(r.Context()).server }
	log := slog.New(warnings{o.Log.Handler()})
	// The SDK binds a session to the user it is told; ours is token and lane.
	bind := auth.RequireBearerToken(func(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
		return viewOf(ctx).info, nil // admission has checked the token
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	// No JSONResponse in either: progress travels on the call's own stream. A tool without one
	// becomes plain JSON by answer.
	s.stateful = bind(sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		SessionTimeout:             o.SessionTimeout,
		Logger:                     log,
		DisableLocalhostProtection: true, // admission checks Host, for every surface
		MaxRequestBodyBytes:        front.MaxBody,
	}))
	s.stateless = bind(sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Stateless:                    true,
		Logger:                       log,
		DisableLocalhostProtection:   true,
		MaxRequestBodyBytes:          front.MaxBody,
		PropagateRequestCancellation: true,
	}))
	return s, nil
}

// Mount puts the surface at its addresses.
func (s *Server) Mount(f *front.Server) {
	f.Handle("/mcp", front.Client, s)
	f.Handle("/mcp/l/{lane...}", front.Client, s)
}

// ServeHTTP serves one admitted request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	v, err := s.open(ctx, front.From(ctx), capabilities.LaneID(r.PathValue("lane")), r.URL.RawQuery)
	if err != nil {
		front.WriteError(w, err)
		return
	}
	r = r.WithContext(context.WithValue(ctx, viewCtxKey{}, v))
	stateless := r.Header.Get(versionHeader) >= firstStateless
	delete(r.Header, postedHeader)
	if r.Method == http.MethodPost {
		if err := v.unbatched(r); err != nil {
			writeRefusal(w, err)
			return
		}
		a := &answer{ResponseWriter: w}
		defer a.end()
		w = a
		post := &posted{answer: a, alone: stateless}
		post.came, post.trace = front.Came(r)
		if !stateless {
			// A session's calls outlive their requests in the SDK. An answer that
			// nobody waits for cannot be delivered later (nothing is replayed), so a client
			// that goes away cancels its call, unless a request ID lets it ask again.
			post.gone = r.Context()
		}
		id := strconv.FormatUint(s.nextPost.Add(1), 36)
		s.posts.Store(id, post)
		defer s.posts.Delete(id)
		r.Header[postedHeader] = []string{id}
	}
	if stateless {
		s.stateless.ServeHTTP(w, r)
		return
	}
	id := r.Header.Get(sessionHeader)
	if r.Method == http.MethodPost && id == "" {
		s.roomForSession(v.who.TokenID)
	}
	v.enter(id, s.opts.Now())
	defer func() { v.leave(id, w.Header().Get(sessionHeader), s.opts.Now()) }()
	s.stateful.ServeHTTP(w, r)
}

// Run keeps lists up to date and sessions in bounds until ctx ends; then it ends
// every session.
func (s *Server) Run(ctx context.Context) error {
	defer s.opts.Tokens.OnRevoke(func(id string) {
		s.drop(func(v *view) bool { return v.who.TokenID == id }, &dispatch.Ended{By: packet.ByPerson, Err: withdrawn})
	})()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	if s.opts.Skills != nil && s.opts.Skills.Follows() {
		s.closers.Go(func() { s.lookAtSkills(ctx) })
	}
	for {
		changed := s.opts.Dispatcher.Changed() // before reading, so that nothing is missed
		s.refresh()
		if s.await(ctx, changed, tick.C) {
			s.sweep()
		}
		if ctx.Err() != nil {
			break
		}
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.drop(func(*view) bool { return true }, errEnding)
	ended := make(chan struct{})
	go func() { s.closers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(closeTime): // a tool that does not heed its context
	}
	return nil
}

// await returns once lists have to be read anew, or ctx ended. Meanwhile small lists follow what
// their lanes find, each by itself. ticked says that it is time to sweep, too: policy may look at
// the time, so lists are read anew then.
func (s *Server) await(ctx context.Context, changed <-chan struct{}, tick <-chan time.Time) (ticked bool) {
	var skills <-chan struct{}
	if s.opts.Skills != nil {
		skills = s.opts.Skills.Changed()
		for _, v := range s.snapshot() {
			if v.behind() {
				return false
			}
		}
	}
	for {
		found := s.opts.Working.FoundChanged()
		for _, v := range s.snapshot() {
			v.catchUp()
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
			return false
		case <-skills:
			return false
		case <-found:
		case <-tick:
			return true
		}
	}
}

// lookEvery is how often the folder of skills is looked at while clients are there.
const lookEvery = 2 * time.Second

// lookAtSkills has clients told of changed skills although nobody asks for them.
func (s *Server) lookAtSkills(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if len(s.snapshot()) > 0 {
				s.opts.Skills.Look()
			}
		}
	}
}

// errEnding is why calls end with the gateway.
var errEnding error = capabilities.Errorf(capabilities.CodeCancelled, "The gateway is ending.")

// withdrawn is why the calls of a token end that is good no longer.
var withdrawn = dispatch.NoToken()

// refresh brings every view's tools up to date; the SDK tells the clients.
func (s *Server) refresh() {
	for _, v := range s.snapshot() {
		v.refresh()
	}
}

// sweep ends the views of ended tokens and forgets those nobody uses.
func (s *Server) sweep() {
	now := s.opts.Now()
	s.drop(func(v *view) bool { return !s.opts.Tokens.Valid(v.who.TokenID) || v.idle(now) }, withdrawn)
	for _, v := range s.snapshot() {
		v.prune()
	}
}

// drop removes the views that match, cancels their calls for that cause and closes
// their sessions.
func (s *Server) drop(match func(*view) bool, cause error) {
	var out []*view
	s.mu.Lock()
	for k, v := range s.views {
		if match(v) {
			delete(s.views, k)
			out = append(out, v)
		}
	}
	s.mu.Unlock()
	for _, v := range out {
		v.cancel(cause)
		for session := range v.server.Sessions() {
			s.closers.Go(func() { _ = session.Close() }) // waits for the session's calls
		}
	}
}

func (s *Server) snapshot() []*view {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*view, 0, len(s.views))
	for _, v := range s.views {
		all = append(all, v)
	}
	return all
}

// warnings passes on what the SDK says from warnings up; its own steps are noise.
type warnings struct{ slog.Handler }

// Enabled reports whether the level is passed on.
func (h warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

// Handle leaves out that a notice could not be sent: a client that keeps no stream open
// gets none, and that is its right.
func (h warnings) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "calling notifications/") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs keeps the threshold.
func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the threshold.
func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }
