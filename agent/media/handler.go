package media

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// The capabilities: the screen, a camera or a microphone, live, to one viewer; and where
// that viewer is, told later.
const (
	screenLive  capabilities.CapabilityID = "tyrum.live.screen"
	cameraLive  capabilities.CapabilityID = "tyrum.live.camera"
	soundLive   capabilities.CapabilityID = "tyrum.live.microphone"
	trickleLive capabilities.CapabilityID = "tyrum.live.trickle"
)

const (
	// connectTime is how long a viewer may take to come.
	connectTime = 30 * time.Second
	// lastWord is how long before its deadline a session ends by itself, so that the
	// end is told as what it is.
	lastWord = 500 * time.Millisecond
	// maxViewers bounds the sessions of a node.
	maxViewers = 16
	readyFor   = 2 * time.Second
)

// Options of New.
type Options struct {
	// Opener opens the desktop; it stays its owner's. Default: no screen is shown.
	Opener platform.DesktopOpener
	// Sensors are backends of cameras and microphones, best first; they stay their
	// owner's. Default: none is shown.
	Sensors []platform.Sensors
	// Port is the UDP and TCP port that media uses. Default: one that is free.
	Port int
	// Log. Default: discard.
	Log *slog.Logger
}

// Handler implements capabilities.Handler for the live family: a call is a session.
type Handler struct {
	o    Options
	door door
	//lint:ignore containedctx the life of what the handler owns
	life context.Context
	kill context.CancelFunc
	wg   sync.WaitGroup

	marks marks

	mu      sync.Mutex // above what follows
	sources map[string]*source
	named   map[sessionKey]*peer
	viewers int
	films   map[capabilities.CallID]*film
	readyAt time.Time
	ready   capabilities.Readiness
}

var _ capabilities.Handler = (*Handler)(nil)

// New makes a Handler; it starts nothing.
func New(o Options) (*Handler, error) {
	if o.Opener == nil && len(o.Sensors) == 0 {
		return nil, errors.New("media: Opener or Sensors is required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{
		o: o, door: door{port: o.Port}, sources: map[string]*source{}, named: map[sessionKey]*peer{}, films: map[capabilities.CallID]*film{},
	}
	h.life, h.kill = context.WithCancel(context.Background())
	return h, nil
}

// Capabilities lists what this handler implements.
func (h *Handler) Capabilities() []capabilities.CapabilityID {
	all := []capabilities.CapabilityID{trickleLive}
	if h.o.Opener != nil {
		all = append(all, screenLive, screenFilm, filmEnds)
	}
	if len(h.o.Sensors) > 0 {
		all = append(all, cameraLive, soundLive)
	}
	return all
}

// Readiness says what there is to show. Candidates are always taken.
func (h *Handler) Readiness(ctx context.Context) []capabilities.Readiness {
	all := []capabilities.Readiness{{Capability: trickleLive, Isolation: capabilities.ClassSession}}
	if h.o.Opener != nil {
		all = append(all, each(h.screenReady(ctx))...)
	}
	if len(h.o.Sensors) > 0 {
		for _, id := range []capabilities.CapabilityID{cameraLive, soundLive} {
			_, r := h.outlets(ctx, sensorOf[id])
			r.Capability = id
			all = append(all, r)
		}
	}
	return all
}

var sensorOf = map[capabilities.CapabilityID]platform.SensorKind{cameraLive: platform.SensorCamera, soundLive: platform.SensorMicrophone}

func (h *Handler) screenReady(ctx context.Context) capabilities.Readiness {
	h.mu.Lock()
	if time.Since(h.readyAt) < readyFor {
		defer h.mu.Unlock()
		return h.ready
	}
	h.mu.Unlock()
	r := capabilities.Readiness{Capability: screenLive, Isolation: capabilities.ClassSession}
	ctx, cancel := context.WithTimeout(ctx, readyFor)
	defer cancel()
	d, err := h.o.Opener.Open(ctx)
	switch {
	case err != nil:
		r.Reason = capabilities.ReasonBackendMissing
		r.Fix, r.Action = fixOf(err)
	case d.Screen == nil:
		r.Reason, r.Fix = capabilities.ReasonBackendMissing, "This desktop gives no picture."
		if m := d.Missing[platform.PartScreen]; m != nil {
			r.Fix, r.Action = fixOf(m)
		}
	default:
		r.Backend = "VP8 over WebRTC, " + d.Name
		if reason := h.o.Opener.Locked(ctx); reason != "" {
			r.Reason, r.Fix = capabilities.ReasonPermission, reason
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready, h.readyAt = r, time.Now()
	return r
}

// each is the readiness of all that looks at the screen: a recording can be ended
// whatever became of it.
func each(r capabilities.Readiness) []capabilities.Readiness {
	film := r
	film.Capability = screenFilm
	if film.Backend != "" {
		film.Backend = "VP8 in WebM" + strings.TrimPrefix(film.Backend, "VP8 over WebRTC")
	}
	return []capabilities.Readiness{r, film, {Capability: filmEnds, Isolation: capabilities.ClassSession}}
}

// fixOf returns what a person can do, at most 300 bytes.
func fixOf(err error) (string, capabilities.Action) {
	var lacks *platform.MissingError
	if !errors.As(err, &lacks) {
		return "A person has to see what is missing on the node.", capabilities.Action{Key: capabilities.ActionExamineNode}
	}
	text := lacks.What + " " + lacks.Fix
	if len(text) > 300 {
		text = lacks.Fix
	}
	return capabilities.Clip(text, 300), capabilities.Action{}
}

type arguments struct {
	Offer   string   `json:"offer"`
	Display string   `json:"display"`
	Device  string   `json:"device_id"`
	Session string   `json:"session"` // what candidates name it by; empty: none come
	Servers []server `json:"ice_servers"`
}

// server is a STUN or TURN server by which the node may find a way.
type server struct {
	URL        string `json:"url"`
	Username   string `json:"username"`
	Credential string `json:"credential"`
}

// sessionKey names a session: a lane tells candidates to its own only.
type sessionKey struct {
	lane capabilities.LaneID
	name string
}

// Answered is the word that a session sends while it runs: the answer to the offer.
type Answered struct {
	Answer string `json:"answer"`
}

type result struct {
	Frames     int64   `json:"frames"`
	Bytes      int64   `json:"bytes"`
	DurationMS float64 `json:"duration_ms"`
	End        string  `json:"end"`
}

// trickle takes addresses of a viewer that came after its offer.
func (h *Handler) trickle(inv capabilities.Invocation) (capabilities.Output, error) {
	var args struct {
		Session    string   `json:"session"`
		Candidates []string `json:"candidates"`
	}
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	h.mu.Lock()
	p := h.named[sessionKey{inv.Lane, args.Session}]
	h.mu.Unlock()
	if p == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNotFound, "There is no such session, or it has ended.")
	}
	var out struct {
		Taken int `json:"taken"`
	}
	for _, c := range args.Candidates {
		if p.candidate(c) {
			out.Taken++
		}
	}
	return capabilities.Output{Result: out, Effect: capabilities.EffectConfirmed, Evidence: "the session took the addresses"}, nil
}

// Handle is one session, one recording, or a word to one of them. A session answers the
// offer by its progress, shows the screen, and returns when the viewer has gone or its
// time is over.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	switch inv.Capability {
	case trickleLive:
		return h.trickle(inv)
	case screenFilm:
		return h.record(ctx, inv)
	case filmEnds:
		return h.stopFilm(inv)
	}
	var args arguments
	if err := json.Unmarshal(inv.Args, &args); err != nil {
		return capabilities.Output{}, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.life, func() { cancel(closing()) })()
	src, err := h.find(ctx, inv.Capability, args)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer h.leave(src)
	p, answer, err := h.door.answer(ctx, args.Offer, args.Servers, src.wantKey, src.outlet.codec)
	if err != nil {
		return capabilities.Output{}, explain(ctx, err)
	}
	defer p.close()
	if args.Session != "" {
		key := sessionKey{inv.Lane, args.Session}
		h.mu.Lock()
		h.named[key] = p
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			delete(h.named, key)
			h.mu.Unlock()
		}()
	}
	word, err := json.Marshal(Answered{answer})
	if err != nil {
		return capabilities.Output{}, err
	}
	began := time.Now()
	inv.Progress(capabilities.Progress{Message: "answered", Data: word})

	v := &viewer{peer: p}
	end, err := h.watch(ctx, src, v, inv)
	if err != nil {
		return capabilities.Output{}, explain(ctx, err)
	}
	return capabilities.Output{
		Result: result{Frames: v.shown.Load(), Bytes: v.bytes.Load(), DurationMS: float64(time.Since(began).Milliseconds()), End: end},
		Effect: capabilities.EffectConfirmed, Evidence: "frames were sent to a viewer that came",
	}, nil
}

// watch shows the screen to v until it goes. It says why it ended.
func (h *Handler) watch(ctx context.Context, src *source, v *viewer, inv capabilities.Invocation) (string, error) {
	timer := time.NewTimer(connectTime)
	defer timer.Stop()
	select {
	case <-v.peer.up:
	case <-v.peer.down:
		return "", capabilities.Errorf(capabilities.CodeExecutionFailed, "The viewer could not be reached.").WithHint(unreachable)
	case <-timer.C:
		return "", capabilities.Errorf(capabilities.CodeDeadlineExceeded, "The viewer did not come.").WithHint(unreachable)
	case <-src.end:
		return "", src.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if inv.Observe != nil {
		inv.Observe(observed[inv.Capability], "live")
	}
	src.add(v)
	defer src.drop(v)
	if inv.Capability == screenLive {
		telling, stop := context.WithCancel(ctx)
		var told sync.WaitGroup
		told.Go(func() { h.tell(telling, src, inv) })
		defer told.Wait()
		defer stop()
	}
	over := make(<-chan time.Time)
	if deadline, ok := ctx.Deadline(); ok {
		timer.Reset(time.Until(deadline) - lastWord)
		over = timer.C
	}
	select {
	case <-v.peer.down:
		if v.slow.Load() {
			return "too_slow", nil
		}
		return "viewer_left", nil
	case <-over:
		return "time_over", nil
	case <-src.end:
		return "", src.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

const unreachable = "The viewer has to reach this device's media port by UDP or TCP; look at firewalls between the two."

// observed are the keys of what is shown.
var observed = map[capabilities.CapabilityID]string{
	screenLive: "data.read.screen", cameraLive: "data.capture.camera", soundLive: "data.capture.audio",
}

// find enters what a call wants to see or hear.
func (h *Handler) find(ctx context.Context, id capabilities.CapabilityID, args arguments) (*source, error) {
	if kind, ok := sensorOf[id]; ok {
		o, err := h.outlet(ctx, kind, args)
		if err != nil {
			return nil, err
		}
		return h.enter(o.key(), o)
	}
	if h.o.Opener == nil {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "This node shows no screen.")
	}
	if reason := h.o.Opener.Locked(ctx); reason != "" {
		return nil, capabilities.Errorf(capabilities.CodeSessionLocked, "%s", reason)
	}
	return h.enter(args.Display, outlet{codec: vp8Codec})
}

// enter opens the door for a viewer and finds or starts a source: of a display, or of a
// sensor.
func (h *Handler) enter(display string, o outlet) (*source, error) {
	if err := h.door.enter(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The media port cannot be opened.").
			WithHint("Another program may have it; choose another one in node.json.")
	}
	src, err := h.sourceFor(display, o)
	if err != nil {
		h.door.leave()
	}
	return src, err
}

// sourceFor finds or starts a source.
func (h *Handler) sourceFor(display string, o outlet) (*source, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		return nil, closing()
	}
	if h.viewers >= maxViewers {
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "%d viewers are the most.", maxViewers)
	}
	h.viewers++
	src := h.sources[display]
	if src != nil {
		src.users++
		return src, nil
	}
	ctx, stop := context.WithCancel(h.life)
	src = &source{
		h: h, display: display, outlet: o, users: 1, stop: stop, wake: make(chan struct{}, 1), end: make(chan struct{}),
		viewers: map[*viewer]bool{},
	}
	h.sources[display] = src
	h.wg.Go(func() { src.run(ctx) })
	return src, nil
}

func (h *Handler) leave(src *source) {
	h.unlook(src)
	h.door.leave()
}

// retire has nobody join a source that has ended, though what it sent last may be on its
// way for seconds.
func (h *Handler) retire(src *source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sources[src.display] == src {
		delete(h.sources, src.display)
	}
}

// unlook ends what look began; the source ends with the last who look.
func (h *Handler) unlook(src *source) {
	h.mu.Lock()
	h.viewers--
	src.users--
	last := src.users == 0
	if last && h.sources[src.display] == src {
		delete(h.sources, src.display)
	}
	h.mu.Unlock()
	if last {
		src.stop()
		<-src.end
	}
}

// CloseLane has nothing to free: sessions end with their calls.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Close ends all sessions.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.kill()
	h.mu.Unlock()
	h.wg.Wait()
	return nil
}

func closing() *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeDesktopUnavailable, "The node is shutting down.").WithHint("Try again when it is back.")
}

// explain returns a failure its code.
func explain(ctx context.Context, err error) error {
	var coded *capabilities.Error
	var lacks *platform.MissingError
	switch {
	case errors.As(err, &coded):
		return coded
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &coded):
		return coded
	case errors.As(err, &lacks):
		return capabilities.Errorf(capabilities.CodeDesktopUnavailable, "%s", lacks.What).WithHint(lacks.Fix)
	case errors.Is(err, platform.ErrLost):
		return capabilities.Wrap(capabilities.CodeDesktopUnavailable, err, "The connection to the desktop was lost.").
			WithHint("Watch again: it is opened anew.")
	case errors.Is(err, platform.ErrNoSensor):
		return capabilities.Wrap(capabilities.CodeSensorMissing, err, "")
	case errors.Is(err, platform.ErrSensorBusy):
		return capabilities.Wrap(capabilities.CodeSensorBusy, err, "")
	case errors.Is(err, platform.ErrSensorRefused):
		return capabilities.Wrap(capabilities.CodeSensorRefused, err, "")
	case errors.Is(err, platform.ErrSensorLost):
		return capabilities.Wrap(capabilities.CodeCaptureBroken, err, "")
	case errors.Is(err, context.Canceled):
		return capabilities.Wrap(capabilities.CodeCancelled, err, "")
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "It could not be shown live.")
}
