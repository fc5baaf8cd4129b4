package live

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
)

// MaxOffer bounds an offer, in bytes.
const MaxOffer = 64 << 10

// maxSessions bounds the sessions of a gateway.
const maxSessions = 256

// Calls is the pipeline; gateway/dispatch implements it.
type Calls interface {
	Call(ctx context.Context, r dispatch.Request) capabilities.Result
}

// Options of New; required unless a default is named.
type Options struct {
	Calls  Calls
	Grants Grants // of those who take over; default: nobody can
	// Silence is how long a console that has taken over may say nothing before the
	// device is given back. Default: 10 s.
	Silence time.Duration
	ICE     ICEServers   // default: none
	Log     *slog.Logger // default: discards
}

// Sessions are those who watch now. All methods are safe for concurrent use.
type Sessions struct {
	opts Options

	mu     sync.Mutex
	open   map[string]*session
	taken  map[string]*control
	films  []*recording                               // that run, and the last that did; the oldest first
	marked map[capabilities.PrincipalID]chan struct{} // closed at the next change of marks
	closed bool
	calls  sync.WaitGroup
}

// View is one session, as others may see it.
type View struct {
	ID        string
	Node      capabilities.NodeID
	Source    string
	Principal capabilities.PrincipalID
	Since     time.Time
}

type session struct {
	View
	caller dispatch.Caller
	ufrags []string // of its offer
	//lint:ignore containedctx the life of the session
	life   context.Context
	cancel context.CancelCauseFunc
	end    chan struct{} // closed when its call has ended
	marks  Marks         // Sessions.mu is above it; of version 0 until the node says something of them

	telling  sync.Mutex // above what follows
	told     int        // how often the node was told candidates
	takeBack func()     // the word for that; nil: none yet
}

// New makes Sessions; it starts nothing.
func New(o Options) (*Sessions, error) {
	if o.Calls == nil {
		return nil, errors.New("live: Options.Calls is required")
	}
	if err := o.ICE.Check(); err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Silence == 0 {
		o.Silence = 10 * time.Second
	}
	return &Sessions{
		opts: o, open: map[string]*session{}, taken: map[string]*control{}, marked: map[capabilities.PrincipalID]chan struct{}{},
	}, nil
}

// tool is what a source is called by.
func tool(source string) (capabilities.ToolID, bool) {
	switch source {
	case "screen", "camera", "microphone":
		return capabilities.ToolID("tool.live." + source), true
	}
	return "", false
}

// Open begins a session: it has the call made and returns the answer to the offer. waiting bounds
// how long the caller waits for that; life is the context that the call lives in, and release is
// called once it ended. Errors are those of the call.
func (s *Sessions) Open(waiting, life context.Context, release func(), caller dispatch.Caller, node capabilities.NodeID,
	source, offer string) (View, string, error) {
	id, ok := tool(source)
	if !ok {
		release()
		return View{}, "", capabilities.Errorf(capabilities.CodeNotFound, "there is nothing live called %.40q", source).
			WithHint("It is screen, camera or microphone.")
	}
	one := &session{
		View:   View{ID: rand.Text(), Node: node, Source: source, Principal: caller.Principal, Since: time.Now().UTC()},
		caller: later(caller), ufrags: ufragsOf(offer), end: make(chan struct{}),
	}
	one.marks.Node, one.marks.Session = node, one.ID
	args := map[string]any{"offer": offer, "node_id": node, "session": one.ID}
	if servers := s.opts.ICE.For("node-" + string(node)); len(servers) > 0 {
		args["ice_servers"] = servers
	}
	answered := make(chan string, 1)
	result, err := s.begin(waiting, life, release, lasting{
		caller: caller, tool: id, args: args, surface: "whep",
		enter: func(life context.Context, cancel context.CancelCauseFunc) {
			one.life, one.cancel = life, cancel
			s.open[one.ID] = one
		},
		heard: func(data json.RawMessage) bool {
			var word struct {
				Answer string `json:"answer"`
			}
			if json.Unmarshal(data, &word) != nil || word.Answer == "" {
				s.mark(one, data)
				return false
			}
			select {
			case answered <- word.Answer:
			default:
			}
			return true
		},
		leave: func(*capabilities.Result) {
			s.leave(one)
			s.retract(one)
		},
	})
	switch {
	case err != nil:
		return View{}, "", err
	case result != nil:
		return View{}, "", failure(*result)
	}
	return one.View, <-answered, nil
}

// failure is a result that is no session, as an error.
func failure(r capabilities.Result) error {
	if r.Status == capabilities.StatusOK {
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "the session ended before it was answered")
	}
	return &capabilities.Error{Code: r.Code, Message: r.Message, Hint: r.Hint, Action: r.Action, Details: r.Details}
}

// countLocked counts one more call in, of whatever kind: all of them share one bound,
// and the gateway's end waits for each.
func (s *Sessions) countLocked() error {
	if s.closed {
		return capabilities.Errorf(capabilities.CodeOverloaded, "the gateway is ending")
	}
	running := len(s.open) + len(s.taken)
	for _, one := range s.films {
		if one.Result == nil {
			running++
		}
	}
	if running >= maxSessions {
		return capabilities.Errorf(capabilities.CodeOverloaded, "%d sessions are the most", maxSessions)
	}
	s.calls.Add(1)
	return nil
}

func (s *Sessions) leave(one *session) {
	s.mu.Lock()
	delete(s.open, one.ID)
	s.mu.Unlock()
	close(one.end)
}

// Get returns a principal's session. Errors: CodeNotFound, also for another's.
func (s *Sessions) Get(who capabilities.PrincipalID, node capabilities.NodeID, source, id string) (View, error) {
	one, err := s.find(who, node, source, id)
	if err != nil {
		return View{}, err
	}
	return one.View, nil
}

func (s *Sessions) find(who capabilities.PrincipalID, node capabilities.NodeID, source, id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[id]
	if one == nil || one.Principal != who || one.Node != node || one.Source != source {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no such session, or it has ended")
	}
	return one, nil
}

// End ends a principal's session and returns once its call was given up, which the
// node hears at once, or ctx has ended.
func (s *Sessions) End(ctx context.Context, who capabilities.PrincipalID, node capabilities.NodeID, source, id string) error {
	one, err := s.find(who, node, source, id)
	if err != nil {
		return err
	}
	one.cancel(over("the viewer ended the session"))
	select {
	case <-one.end:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Watching returns who watches a node now, the longest first.
func (s *Sessions) Watching(node capabilities.NodeID) []View {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []View{}
	for _, one := range s.open {
		if one.Node == node {
			all = append(all, one.View)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Since.Before(all[j].Since) })
	return all
}

// Run ends all sessions when ctx does, and returns after their calls have ended.
func (s *Sessions) Run(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	s.closed = true
	for _, one := range s.open {
		one.cancel(capabilities.Errorf(capabilities.CodeCancelled, "the gateway is ending"))
	}
	for _, one := range s.taken {
		one.cancel(capabilities.Errorf(capabilities.CodeCancelled, "the gateway is ending"))
	}
	for _, one := range s.films {
		one.cancel(capabilities.Errorf(capabilities.CodeCancelled, "the gateway is ending"))
	}
	s.mu.Unlock()
	s.calls.Wait()
	return nil
}
