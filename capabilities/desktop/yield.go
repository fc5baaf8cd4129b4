package desktop

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

const (
	// releaseTime bounds letting go of keys and buttons.
	releaseTime = 2 * time.Second
	// holdTime is how long a lane may keep a button down without using it.
	holdTime = 60 * time.Second
	// patience is the longest that a call waits for the person to come to rest, if
	// they were at it before the call; longer than that, it is refused.
	patience = 5 * time.Second
)

// hands are the one mouse and keyboard: one call at a time has them, and the
// person takes them at any moment.
type hands struct {
	quiet time.Duration
	turn  chan struct{} // one token: who may inject

	mu      sync.Mutex
	closed  bool
	touched time.Time // when the person last used their own
	taken   bool      // they took over from a call, and have not rested since
	running context.CancelCauseFunc
	user    capabilities.LaneID // whose call or hold it is
	hold    *hold
	// reserved counts the take-overs of owner, who alone may use the hands meanwhile.
	reserved int
	owner    capabilities.LaneID
	free     chan struct{} // closed when nobody has them reserved any more
}

// hold is what a lane keeps down between its calls.
type hold struct {
	lane    capabilities.LaneID
	in      platform.Input
	buttons map[platform.Button]bool
	expiry  *time.Timer
	gone    chan struct{} // closed when it is let go
}

func newHands(quiet time.Duration) *hands {
	k := &hands{quiet: quiet, turn: make(chan struct{}, 1)}
	k.turn <- struct{}{}
	return k
}

func interrupted(left time.Duration, message string) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeInterruptedByPerson, "%s", message).
		WithDetails(interruption{RetryMS: max(left, time.Millisecond).Milliseconds()})
}

// interruption is the Details of CodeInterruptedByPerson.
type interruption struct {
	RetryMS int64 `json:"retry_after_ms"`
	Typed   *int  `json:"typed,omitempty"` // characters, of a call that types
}

// untyped is the Details of CodeTextUntypable: how many characters were typed before.
type untyped struct {
	Typed int `json:"typed"`
}

// input returns fn the mouse and keyboard, alone. The ctx it is given ends when the
// person takes over; then the call is interrupted_by_person. All that fn leaves
// pressed comes up when it ends, but for what it keeps with keepDown; and that too if
// it fails, other than by errDown.
func (h *call) input(ctx context.Context, fn func(ctx context.Context, in platform.Input) error) error {
	d, err := h.desktop(ctx)
	if err != nil {
		return err
	}
	if d.Input == nil {
		return missing(d, platform.PartInput)
	}
	if err := h.hands.take(ctx, h.inv.Lane); err != nil {
		return err
	}
	defer h.hands.giveBack()
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := h.hands.begin(h.inv.Lane, cancel); err != nil {
		return err
	}
	h.observe(keyInput, "")
	h.noteFocus(ctx)
	err = fn(run, d.Input)
	h.hands.end()
	h.noteFocus(context.WithoutCancel(ctx)) // it may be another window now
	if cause := context.Cause(run); run.Err() != nil && ctx.Err() == nil && cause != nil {
		var coded *capabilities.Error
		if errors.As(cause, &coded) {
			err = coded
		}
	}
	if errors.Is(err, errDown) {
		return err // the hold stays
	}
	if err != nil {
		h.letGo(d.Input)
		return err
	}
	if !h.hands.holds() {
		return h.release(ctx, d.Input)
	}
	return nil
}

// release lets go of everything, whether ctx has ended or not.
func (h *Handler) release(ctx context.Context, in platform.Input) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	return in.Release(ctx)
}

// letGo is release and the end of any hold.
func (h *Handler) letGo(in platform.Input) {
	h.hands.forget()
	if err := h.release(context.Background(), in); err != nil && !errors.Is(err, platform.ErrLost) {
		h.log.Warn("desktop.release.failed", "err", err)
	}
}

// take waits for the turn: after the calls that came before, the holds of other
// lanes, and the person.
func (k *hands) take(ctx context.Context, lane capabilities.LaneID) error {
	for {
		if err := k.freed(ctx, lane); err != nil {
			return err
		}
		select {
		case <-k.turn:
		case <-ctx.Done():
			return ctx.Err()
		}
		k.mu.Lock()
		other, kept := k.hold, k.mineLocked(lane)
		k.mu.Unlock()
		if kept != nil {
			k.giveBack()
			continue
		}
		if other == nil || other.lane == lane {
			break
		}
		k.giveBack()
		select {
		case <-other.gone:
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return capabilities.Errorf(capabilities.CodeOverloaded, "Another conversation keeps a mouse button down.").
					WithHint("Try again in a minute; it is let go then at the latest.")
			}
			return ctx.Err()
		}
	}
	if err := k.rest(ctx); err != nil {
		k.giveBack()
		return err
	}
	return nil
}

func (k *hands) giveBack() { k.turn <- struct{}{} }

// rest returns once the person has left mouse and keyboard alone for the quiet
// time. A call that finds them at it waits once; after they took over from a call,
// or if they go on, it is refused.
func (k *hands) rest(ctx context.Context) error {
	for tries := 0; ; tries++ {
		k.mu.Lock()
		left := k.quiet - time.Since(k.touched)
		if k.touched.IsZero() {
			left = 0
		}
		if left <= 0 {
			k.taken = false
		}
		taken := k.taken
		k.mu.Unlock()
		if left <= 0 {
			return nil
		}
		deadline, bounded := ctx.Deadline()
		if taken || tries > 0 || left > patience || bounded && time.Until(deadline) < left {
			return interrupted(left, "The person at the device is using its mouse or keyboard.")
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// begin notes whose call to end when the person takes over.
func (k *hands) begin(lane capabilities.LaneID, cancel context.CancelCauseFunc) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errClosing
	}
	if err := k.mineLocked(lane); err != nil {
		return err
	}
	if left := k.quiet - time.Since(k.touched); !k.touched.IsZero() && left > 0 {
		return interrupted(left, "The person at the device is using its mouse or keyboard.")
	}
	k.running, k.user = cancel, lane
	return nil
}

func (k *hands) end() {
	k.mu.Lock()
	k.running = nil
	k.mu.Unlock()
}

// interrupt ends the running call with why. It tells what is held without one, to
// be let go now.
func (k *hands) interrupt(why *capabilities.Error) platform.Input {
	if k.running != nil {
		k.running(why)
		return nil
	}
	if k.hold != nil {
		return k.hold.in
	}
	return nil
}

// holds reports whether something is kept down between calls.
func (k *hands) holds() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hold != nil
}

// forget ends the hold, whose buttons are let go by the caller.
func (k *hands) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgetLocked()
}

func (k *hands) forgetLocked() {
	if k.hold != nil {
		k.hold.expiry.Stop()
		close(k.hold.gone)
		k.hold = nil
	}
}

func (k *hands) close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
}

// keepDown keeps a button down after the running call of the lane, or no longer.
func (h *Handler) keepDown(lane capabilities.LaneID, in platform.Input, b platform.Button, down bool) {
	k := h.hands
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil {
		if !down {
			return
		}
		held := &hold{lane: lane, in: in, buttons: map[platform.Button]bool{}, gone: make(chan struct{})}
		held.expiry = time.AfterFunc(holdTime, func() { h.dropHold(lane) })
		k.hold = held
	}
	k.hold.expiry.Reset(holdTime)
	if down {
		k.hold.buttons[b] = true
	} else {
		delete(k.hold.buttons, b)
	}
	if len(k.hold.buttons) == 0 {
		k.forgetLocked()
	}
}

// held lists the buttons that the lane keeps down.
func (k *hands) held(lane capabilities.LaneID) []platform.Button {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil || k.hold.lane != lane {
		return nil
	}
	var all []platform.Button
	for _, b := range []platform.Button{
		platform.ButtonLeft, platform.ButtonMiddle, platform.ButtonRight, platform.ButtonBack, platform.ButtonForward,
	} {
		if k.hold.buttons[b] {
			all = append(all, b)
		}
	}
	return all
}

// errDown is in what refuses to press a button that is down. Such a call has nothing
// pressed and lets go of nothing.
var errDown = errors.New("the button is down")

// isUp refuses to press a button that a call before keeps down: systems drop the press,
// and letting go of it would end the hold unsaid. For whoever has the turn.
func (k *hands) isUp(b platform.Button) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold == nil || !k.hold.buttons[b] {
		return nil
	}
	return capabilities.Wrap(capabilities.CodeConflict, errDown,
		"The "+string(b)+" button is down since an earlier call; nothing was pressed.").
		WithHint("Let it go first, with mouse and the action up; what it holds is dragged with the action move.")
}

// dropHold lets go of what the lane keeps down, after its running call.
func (h *Handler) dropHold(lane capabilities.LaneID) {
	if h.hands.held(lane) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.life, holdTime)
	defer cancel()
	select {
	case <-h.hands.turn:
	case <-ctx.Done():
		return
	}
	defer h.hands.giveBack()
	h.hands.mu.Lock()
	var in platform.Input
	if h.hands.hold != nil && h.hands.hold.lane == lane {
		in = h.hands.hold.in
	}
	h.hands.mu.Unlock()
	if in != nil {
		h.letGo(in)
	}
}

// watch has the person of d watched, once.
func (h *Handler) watch(d *platform.Desktop) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watched == d || h.life.Err() != nil {
		return
	}
	if h.unwatch != nil {
		h.unwatch()
	}
	h.hands.forget() // what the desktop before held went with it
	ctx, cancel := context.WithCancel(h.life)
	h.watched, h.unwatch, h.unwatched = d, cancel, nil
	if d.Person == nil {
		h.unwatched = missing(d, platform.PartPerson)
		return
	}
	if err := d.Person.Watch(ctx, h.o.HotKey, h.touched, h.stopKeys); err != nil {
		h.unwatched = err
		h.log.Warn("desktop.person.unwatched", "err", err)
	}
}

// touched is called at each event of the person's own mouse and keyboard.
func (h *Handler) touched(at time.Time) {
	if now := time.Now(); at.IsZero() || at.After(now) {
		at = now
	}
	k := h.hands
	k.mu.Lock()
	if at.After(k.touched) {
		k.touched = at
	}
	var in platform.Input
	if !k.closed && (k.running != nil || k.hold != nil) {
		k.taken = true
		in = k.interrupt(interrupted(k.quiet, "The person at the device took over; the call stopped where it was."))
	}
	k.mu.Unlock()
	h.letGoSoon(in)
}

// stopKeys is called when the person presses the stop keys.
func (h *Handler) stopKeys() {
	h.hands.mu.Lock()
	in := h.hands.interrupt(errStopKeys)
	h.hands.mu.Unlock()
	h.letGoSoon(in)
	h.log.Warn("desktop.stop.keys", "chord", h.o.HotKey)
	h.o.Stop("The stop keys " + h.o.HotKey + " were pressed.")
}

// letGoSoon lets go without keeping the caller: events of the person arrive here.
func (h *Handler) letGoSoon(in platform.Input) {
	if in == nil {
		return
	}
	h.hands.forget() // so that it is done once
	h.mu.Lock()
	if h.life.Err() != nil {
		h.mu.Unlock()
		return
	}
	h.wg.Add(1)
	h.mu.Unlock()
	go func() {
		defer h.wg.Done()
		h.letGo(in)
	}()
}
