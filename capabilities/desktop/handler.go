package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Options of New.
type Options struct {
	// Opener opens the person's desktop. Required.
	Opener platform.DesktopOpener
	// QuietTime is how long the person's mouse and keyboard must have been at rest
	// before calls may use them. Default: 3 s.
	QuietTime time.Duration
	// HotKey is the chord by which the person stops everything; "off" for none.
	// Default: "Control+Alt+Escape".
	HotKey string
	// Yes and No are the chords by which the person answers a question that the device
	// shows; Yes "off": by none. Defaults: DefaultYes and DefaultNo.
	Yes, No string
	// Stop is called, with the reason, when the person presses HotKey. Default:
	// running calls end and everything is let go, no more.
	Stop func(reason string)
	// LaunchAllow, unless empty, are the only applications that act may start, by
	// the name it is given.
	LaunchAllow []string
	// Reader finds text in pictures. Default: none, ocr selectors are refused.
	Reader platform.TextReader
	// Control offers to keep the hands for a person who takes over from afar.
	Control bool
	// Acting is told where on the desktop a call acts, anew when that changes (the
	// newest word counts), and nowhere once it is over. It must not block. Default:
	// nobody is told.
	Acting func(call capabilities.CallID, at ...platform.Rect)
	// After is by what a delivered secret's time in the clipboard ends. Default: time.After.
	After func(time.Duration) <-chan time.Time
	// Log. Default: discard.
	Log *slog.Logger
}

// The defaults of Options.
const (
	DefaultQuietTime = 3 * time.Second
	DefaultHotKey    = "Control+Alt+Escape"
)

// Handler implements capabilities.Handler for the desktop family. There is one
// desktop, which all lanes share: calls that only look run side by side, calls
// that use mouse or keyboard one after another.
type Handler struct {
	o         Options
	log       *slog.Logger
	frames    *frameTable
	refs      *refTable
	hands     *hands
	images    *imageCache
	snapshots *snapshotTable

	//lint:ignore containedctx the life of the handler
	life context.Context // ends with Close
	kill context.CancelFunc
	wg   sync.WaitGroup // what lets go of keys and buttons outside of calls

	mu        sync.Mutex
	watched   *platform.Desktop // whose person is watched
	unwatch   context.CancelFunc
	unwatched error // why the person of watched cannot be told apart; nil: it can
	ready     cachedReadiness
}

var _ capabilities.Handler = (*Handler)(nil)

// call is a handler with the invocation that it carries out.
type call struct {
	*Handler
	inv *capabilities.Invocation
}

// tool carries out one capability.
type tool func(c *call, ctx context.Context) (capabilities.Output, error)

// tools are what is implemented.
var tools = capabilities.Tools[tool]{
	{Capability: "tyrum.desktop.screenshot", Run: (*call).screenshot},
	{Capability: "tyrum.desktop.snapshot", Run: (*call).snapshot},
	{Capability: "tyrum.desktop.query", Run: (*call).query},
	{Capability: "tyrum.desktop.act", Run: (*call).act},
	{Capability: "tyrum.desktop.wait-for", Run: (*call).waitFor},
	{Capability: "tyrum.desktop.mouse", Run: (*call).mouse},
	{Capability: "tyrum.desktop.keyboard", Run: (*call).keyboard},
	{Capability: "tyrum.desktop.clipboard-write", Run: (*call).clipboardWrite},
	{Capability: controlID, Run: (*call).control}, // the last, and only where Options.Control offers it
}

// tools are those that this handler offers.
func (h *Handler) tools() capabilities.Tools[tool] {
	if h.o.Control {
		return tools
	}
	return tools[:len(tools)-1]
}

// New makes a Handler; it starts nothing. The error names a bad option.
func New(o Options) (*Handler, error) {
	if o.Opener == nil {
		return nil, errors.New("desktop: Opener is required")
	}
	if o.QuietTime < 0 {
		return nil, errors.New("desktop: QuietTime is negative")
	}
	if o.QuietTime == 0 {
		o.QuietTime = DefaultQuietTime
	}
	if o.After == nil {
		o.After = time.After
	}
	switch o.HotKey {
	case "":
		o.HotKey = DefaultHotKey
	case "off":
		o.HotKey = ""
	default:
		if _, err := parseChord(o.HotKey); err != nil {
			return nil, errors.New("desktop: HotKey: " + err.Error())
		}
	}
	switch o.Yes {
	case "":
		o.Yes = DefaultYes
	case "off":
		o.Yes, o.No = "", ""
	}
	if o.No == "" {
		o.No = DefaultNo
	}
	if o.Yes != "" {
		if err := checkAnswers(&o); err != nil {
			return nil, err
		}
	}
	if o.Acting == nil {
		o.Acting = func(capabilities.CallID, ...platform.Rect) {}
	}
	if o.Stop == nil {
		o.Stop = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	h := &Handler{
		o: o, log: o.Log, frames: newFrameTable(), refs: newRefTable(), hands: newHands(o.QuietTime), images: newImageCache(),
		snapshots: newSnapshotTable(),
	}
	h.life, h.kill = context.WithCancel(context.Background())
	return h, nil
}

// Capabilities lists what this handler implements.
func (h *Handler) Capabilities() []capabilities.CapabilityID {
	return h.tools().Capabilities()
}

// Handle carries out one call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	run, err := h.tools().Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	defer context.AfterFunc(h.life, func() { cancel(errClosing) })()
	defer h.o.Acting(inv.Call)
	out, err := run(&call{h, &inv}, ctx)
	if err == nil {
		return out, nil
	}
	e := explain(ctx, err)
	h.log.Debug("desktop.call.failed", "call", inv.Call, "capability", inv.Capability, "code", e.Code)
	return capabilities.Output{}, e
}

// The capability keys that calls are observed to use.
const (
	keyScreen    = "data.read.screen"
	keyInput     = "privileged.input.inject"
	keyClipboard = "data.write.clipboard"
)

// observe reports that the call really used a capability key.
func (h *call) observe(key, detail string) { h.inv.Observe(key, detail) }

// acts tells where the call acts.
func (h *call) acts(at ...platform.Rect) { h.o.Acting(h.inv.Call, at...) }

// pixel is the place of a point.
func pixel(p platform.Point) platform.Rect { return platform.Rect{X: p.X, Y: p.Y, Width: 1, Height: 1} }

// decode reads the canonical arguments, which the gateway has validated.
func (h *call) decode(into any) error {
	if err := json.Unmarshal(h.inv.Args, into); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "The arguments do not have the expected shape.")
	}
	return nil
}

// desktop returns the person's desktop, opened if it is not, with its person
// watched. It refuses while the session is locked.
func (h *Handler) desktop(ctx context.Context) (*platform.Desktop, error) {
	d, err := h.o.Opener.Open(ctx)
	if err != nil {
		return nil, err
	}
	h.watch(d)
	if reason := h.o.Opener.Locked(ctx); reason != "" {
		return nil, capabilities.Errorf(capabilities.CodeSessionLocked, "%s", reason)
	}
	return d, nil
}

// missing says why d lacks a part, as a refusal.
func missing(d *platform.Desktop, part platform.DesktopPart) error {
	if m := d.Missing[part]; m != nil {
		return m
	}
	return capabilities.Errorf(capabilities.CodeNotSupported, "This desktop has no %s.", part).
		WithAction(capabilities.Action{Key: capabilities.ActionExamineNode}, "A person has to see what is missing on the node.")
}

// tree reads accessible elements.
func (h *call) tree(ctx context.Context, q platform.TreeQuery) (platform.Tree, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return platform.Tree{}, err
	}
	if d.Accessibility == nil {
		return platform.Tree{}, missing(d, platform.PartAccessibility)
	}
	h.observe(keyScreen, "elements")
	return d.Accessibility.Tree(ctx, q)
}

// CloseLane lets go of what the lane holds.
func (h *Handler) CloseLane(lane capabilities.LaneID) { h.dropHold(lane) }

// Close ends running calls, lets go of everything and closes the desktop.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.kill() // from here on nothing is added to wg
	if h.unwatch != nil {
		h.unwatch()
		h.unwatch = nil
	}
	h.mu.Unlock()
	h.hands.close()
	h.wg.Wait()
	return h.o.Opener.Close()
}
