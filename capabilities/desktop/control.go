package desktop

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// controlID is the take-over of a person at the gateway. It is of the live family,
// and here because here are the hands.
const controlID capabilities.CapabilityID = "tyrum.live.control"

const (
	// layoutEvery is how often a take-over looks whether the displays are as they were.
	layoutEvery = 500 * time.Millisecond
	// lastWord is how long before its deadline a take-over ends by itself, so that the
	// end is told as what it is.
	lastWord = 500 * time.Millisecond
)

type controlArgs struct {
	Pause   bool   `json:"pause"`
	Display string `json:"display"`
}

// controlWord is what a take-over says while it runs: that it has begun, and the frame
// that its mouse works in, anew whenever the displays change. No frame while paused.
type controlWord struct {
	Taken bool `json:"taken"`
	*controlFrame
}

type controlFrame struct {
	FrameID string `json:"frame_id"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
}

type controlResult struct {
	DurationMS float64 `json:"duration_ms"`
	End        string  `json:"end"`
}

// control keeps mouse and keyboard for its lane until the call ends. Another lane's use of them
// stops at once, and whatever it holds down comes up. The person at the device goes before this one
// as before everybody.
func (h *call) control(ctx context.Context) (capabilities.Output, error) {
	var args controlArgs
	if err := h.decode(&args); err != nil {
		return capabilities.Output{}, err
	}
	d, err := h.desktop(ctx)
	if err != nil {
		return capabilities.Output{}, err
	}
	if !args.Pause && d.Input == nil {
		return capabilities.Output{}, missing(d, platform.PartInput)
	}
	began := time.Now()
	in, giveBack, err := h.hands.reserve(ctx, h.inv.Lane)
	if err != nil {
		return capabilities.Output{}, err
	}
	defer giveBack()
	defer h.dropHold(h.inv.Lane) // a button that was down when the console went away
	h.letGoSoon(in)
	// An interrupted call has let go once its turn is over.
	select {
	case <-h.hands.turn:
		h.hands.giveBack()
	case <-ctx.Done():
		return capabilities.Output{}, ctx.Err()
	}
	over := make(<-chan time.Time)
	if deadline, ok := ctx.Deadline(); ok {
		timer := time.NewTimer(time.Until(deadline) - lastWord)
		defer timer.Stop()
		over = timer.C
	}
	tick := time.NewTicker(layoutEvery)
	defer tick.Stop()
	epoch := ^uint64(0) // of no layout
	for first := true; ; first = false {
		word := controlWord{Taken: true}
		if !args.Pause {
			if word.controlFrame, err = h.controlFrame(ctx, args.Display, &epoch); err != nil {
				return capabilities.Output{}, err
			}
		}
		if first || word.controlFrame != nil {
			data, err := json.Marshal(word)
			if err != nil {
				return capabilities.Output{}, err
			}
			h.inv.Progress(capabilities.Progress{Message: "taken over", Data: data})
		}
		select {
		case <-tick.C:
		case <-over:
			return capabilities.Output{
				Result: controlResult{DurationMS: float64(time.Since(began).Milliseconds()), End: "time_over"},
				Effect: capabilities.EffectConfirmed, Evidence: "nobody else had mouse or keyboard",
			}, nil
		case <-ctx.Done():
			return capabilities.Output{}, ctx.Err()
		}
	}
}

// controlFrame returns a frame of the display as the live view shows it, nil if the
// layout is still that of epoch.
func (h *Handler) controlFrame(ctx context.Context, display string, epoch *uint64) (*controlFrame, error) {
	d, err := h.desktop(ctx)
	if err != nil {
		return nil, err
	}
	layout, err := h.layout(ctx, d)
	if err != nil {
		return nil, err
	}
	if layout.Epoch == *epoch {
		return nil, nil
	}
	at := slices.IndexFunc(layout.Displays, func(one platform.Display) bool { return one.ID == display || display == "" && one.Primary })
	if at < 0 && display == "" && len(layout.Displays) > 0 {
		at = 0
	}
	if at < 0 {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "There is no display %.100q.", display).
			WithHint("Leave it out for the main one.")
	}
	one := layout.Displays[at]
	*epoch = layout.Epoch
	s := h.frames.add(shown{
		display: one.ID, area: one.Bounds, width: one.Bounds.Width, height: one.Bounds.Height, scale: one.Scale, epoch: layout.Epoch,
		cursor: true,
	})
	return &controlFrame{FrameID: s.id, Width: s.width, Height: s.height}, nil
}

// handingBack is how long a call waits for a take-over that is ending: the gateway lets
// others go on when it has ended it, and nothing says that this device heard so first.
const handingBack = 2 * time.Second

// freed waits until another lane's take-over has ended, for handingBack at most.
func (k *hands) freed(ctx context.Context, lane capabilities.LaneID) error {
	k.mu.Lock()
	kept, free := k.mineLocked(lane), k.free
	k.mu.Unlock()
	if kept == nil {
		return nil
	}
	timer := time.NewTimer(handingBack)
	defer timer.Stop()
	select {
	case <-free:
		return nil
	case <-timer.C:
		return kept
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve keeps the hands for a lane until giveBack, which is to be called once. It
// ends what another lane does, and tells what that holds without a call, to be let go
// now. One lane may reserve them several times.
func (k *hands) reserve(ctx context.Context, lane capabilities.LaneID) (held platform.Input, giveBack func(), err error) {
	if err := k.freed(ctx, lane); err != nil {
		return nil, nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.mineLocked(lane); err != nil {
		return nil, nil, err
	}
	k.owner = lane
	if k.reserved++; k.reserved == 1 {
		k.free = make(chan struct{})
	}
	if k.user != lane {
		held = k.interrupt(&capabilities.Error{Code: capabilities.CodeTakenOver})
	}
	return held, func() {
		k.mu.Lock()
		if k.reserved--; k.reserved == 0 {
			close(k.free)
		}
		k.mu.Unlock()
	}, nil
}

// mineLocked refuses a lane other than the one that has reserved the hands.
func (k *hands) mineLocked(lane capabilities.LaneID) error {
	if k.reserved > 0 && k.owner != lane {
		return &capabilities.Error{Code: capabilities.CodeTakenOver}
	}
	return nil
}
