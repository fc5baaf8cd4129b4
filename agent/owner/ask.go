package owner

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// How long and how much a person is asked.
const (
	// QuestionLife is how long a question waits for its answer: after that it is a no.
	QuestionLife = 10 * time.Minute
	// MaxStanding is the longest that one answer can hold.
	MaxStanding = time.Hour
	// MaxWait is the longest that a call waits for the answer before it says that it
	// is pending; less, if the call's own deadline is nearer.
	MaxWait = 45 * time.Second

	deniedFor  = time.Minute      // a no is not asked about again at once
	handsFree  = 10 * time.Minute // how long after an agent's last input an approval from this desk does not count
	maxOpen    = 32               // questions at a time, of one principal 8
	maxOpenOne = 8
	lookEvery  = 50 * time.Millisecond // for the answer's file
)

// Call is what a person is asked about.
type Call struct {
	Call      capabilities.CallID
	Tool      capabilities.ToolID
	Principal capabilities.PrincipalID
	Lane      capabilities.LaneID
	Args      []byte         // canonical; an answer is for these
	Shown     map[string]any // the allowlisted ones, for the person
	Why       string         // in plain words
	Risk      string
	// Input says that the call moves mouse or keyboard.
	Input bool
	// Wait bounds the waiting; default and at most MaxWait.
	Wait time.Duration
}

// Event is something a person said, for the node's log.
type Event struct {
	Call     Call
	Approved bool
	By       string        // as the answer says: the account's name
	For      time.Duration // 0: this call only
}

// DeskOptions of NewDesk; required unless a default is named.
type DeskOptions struct {
	Dir    string               // of the node; questions are kept below it
	Record func(Event) error    // writes an answer to the node's log, before the call runs
	Show   func(Question)       // tells the person of a new question; default: nobody is told
	Now    func() time.Time     // default time.Now
	Log    *slog.Logger         // default: discards
	Look   func() time.Duration // how often answers are looked for; default every 50 ms
}

// Desk asks the person at the device. All methods are safe for concurrent use.
type Desk struct {
	opts DeskOptions

	mu       sync.Mutex
	open     map[key]*Question
	approved map[key]time.Time // one use each, until then
	denied   map[key]time.Time
	standing map[scope]time.Time
	hands    time.Time // until then an agent can use mouse or keyboard here
}

// key is a call down to its arguments; scope leaves those out.
type (
	key   [sha256.Size]byte
	scope struct {
		principal capabilities.PrincipalID
		tool      capabilities.ToolID
		lane      capabilities.LaneID
	}
)

func keyOf(c *Call) key {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(c.Principal), []byte(c.Tool), []byte(c.Lane), c.Args} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return key(h.Sum(nil))
}

func scopeOf(c *Call) scope { return scope{c.Principal, c.Tool, c.Lane} }

// NewDesk opens the folder of questions and empties it: what an earlier process
// asked, nobody waits for any more.
func NewDesk(o DeskOptions) (*Desk, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Show == nil {
		o.Show = func(Question) {}
	}
	if o.Look == nil {
		o.Look = func() time.Duration { return lookEvery }
	}
	if err := clearFolder(questionsIn(o.Dir)); err != nil {
		return nil, fmt.Errorf("owner's questions: %w", err)
	}
	return &Desk{
		opts: o, open: map[key]*Question{}, approved: map[key]time.Time{}, denied: map[key]time.Time{}, standing: map[scope]time.Time{},
	}, nil
}

// Used says that an agent uses mouse or keyboard on this device, and may go on
// without being asked: for a while, approvals from here do not count.
func (d *Desk) Used() { d.noteHands(d.opts.Now().Add(handsFree)) }

func (d *Desk) noteHands(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if until.After(d.hands) {
		d.hands = until
	}
}

// Ask waits for the person's answer. nil: the call may run, once. Else the code is
// CodeConsentDenied (a person said no), CodeApprovalPending (nobody has said
// anything yet; the identical call goes on with it), CodeOverloaded (too many
// questions), CodeLedgerUnavailable (the answer could not be recorded), or what
// ended ctx.
func (d *Desk) Ask(ctx context.Context, c Call) *capabilities.Error {
	k := keyOf(&c)
	wait := c.Wait
	if wait <= 0 || wait > MaxWait {
		wait = MaxWait
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	look := time.NewTicker(d.opts.Look())
	defer look.Stop()
	for {
		done, err := d.check(&c, k)
		if done {
			return err
		}
		select {
		case <-ctx.Done():
			cause := context.Cause(ctx)
			if e, ok := cause.(*capabilities.Error); ok {
				return e
			}
			return capabilities.Wrap(capabilities.CodeCancelled, cause, "")
		case <-late.C:
			return capabilities.Errorf(capabilities.CodeApprovalPending, "the device's owner has been asked and has not answered yet").
				WithAction(capabilities.Action{
					Key: capabilities.ActionListQuestions,
				}, "Wait, then make the identical call again: it goes on with the same question. The owner answers on the device.")
		case <-look.C:
		}
	}
}

// check takes a step: done=false means that there is nothing to do but wait.
func (d *Desk) check(c *Call, k key) (done bool, err *capabilities.Error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.opts.Now()
	d.expireLocked(now)
	if until, ok := d.standing[scopeOf(c)]; ok && now.Before(until) {
		return true, d.passLocked(c, until)
	}
	if _, ok := d.approved[k]; ok {
		delete(d.approved, k)
		return true, d.passLocked(c, now.Add(c.wait()))
	}
	if _, ok := d.denied[k]; ok {
		return true, capabilities.Errorf(capabilities.CodeConsentDenied, "the device's owner said no")
	}
	q := d.open[k]
	if q == nil {
		if err := d.askLocked(c, k, now); err != nil {
			return true, err
		}
		return false, nil
	}
	a, ok := readAnswer(d.opts.Dir, q)
	if !ok {
		return false, nil
	}
	now = d.opts.Now() // it may have come since
	if a.Approve && now.Before(d.hands) {
		// An agent with mouse and keyboard could have typed it.
		d.settleLocked(q, a, "refused", "An agent may use this device's mouse and keyboard until "+d.hands.Local().Format("15:04:05")+
			", so a yes from this device does not count before. A no does; so does stopping the device.")
		return false, nil
	}
	// Recorded first: what is not in the log did not happen.
	standing := min(max(a.For(), 0), MaxStanding)
	if err := d.opts.Record(Event{Call: *c, Approved: a.Approve, By: a.By, For: standing}); err != nil {
		d.settleLocked(q, a, "refused", "The node's log could not record it.")
		return true, capabilities.AsError(err)
	}
	delete(d.open, k)
	outcome := ""
	switch {
	case !a.Approve:
		d.denied[k] = now.Add(deniedFor)
		outcome = "denied"
	case standing > 0:
		d.standing[scopeOf(c)] = now.Add(standing)
		outcome = "approved"
	default:
		d.approved[k] = now.Add(QuestionLife)
		outcome = "approved"
	}
	removeQuestion(d.opts.Dir, q.ID)
	d.settleLocked(q, a, outcome, "")
	return d.againLocked(c, k, now)
}

// againLocked uses what was just answered.
func (d *Desk) againLocked(c *Call, k key, now time.Time) (bool, *capabilities.Error) {
	if until, ok := d.standing[scopeOf(c)]; ok && now.Before(until) {
		return true, d.passLocked(c, until)
	}
	if _, ok := d.approved[k]; ok {
		delete(d.approved, k)
		return true, d.passLocked(c, now.Add(c.wait()))
	}
	return true, capabilities.Errorf(capabilities.CodeConsentDenied, "the device's owner said no")
}

func (c *Call) wait() time.Duration {
	if c.Wait > 0 {
		return c.Wait
	}
	return MaxWait
}

// passLocked lets a call go; while it can use mouse and keyboard, the desk is not
// the person's alone.
func (d *Desk) passLocked(c *Call, until time.Time) *capabilities.Error {
	if c.Input && until.After(d.hands) {
		d.hands = until
	}
	return nil
}

func (d *Desk) expireLocked(now time.Time) {
	for k, q := range d.open {
		if !now.Before(q.Expires) {
			delete(d.open, k)
			removeQuestion(d.opts.Dir, q.ID)
		}
	}
	for _, m := range []map[key]time.Time{d.approved, d.denied} {
		for k, until := range m {
			if !now.Before(until) {
				delete(m, k)
			}
		}
	}
	for s, until := range d.standing {
		if !now.Before(until) {
			delete(d.standing, s)
		}
	}
}

func (d *Desk) askLocked(c *Call, k key, now time.Time) *capabilities.Error {
	of := 0
	for _, q := range d.open {
		if q.Principal == c.Principal {
			of++
		}
	}
	if len(d.open) >= maxOpen || of >= maxOpenOne {
		return capabilities.Errorf(capabilities.CodeOverloaded, "the device's owner has %d questions to answer already", len(d.open)).
			WithHint("Wait until some are answered; a question that nobody answers ends after 10 minutes.")
	}
	q := &Question{
		Version: 1, ID: newID(), nonce: rand.Text(), Tool: c.Tool, Principal: c.Principal, Lane: c.Lane, Args: c.Shown, Why: c.Why, Risk: c.Risk,
		Opened: now.UTC(), Expires: now.Add(QuestionLife).UTC(),
	}
	if err := writeQuestion(d.opts.Dir, q); err != nil {
		d.opts.Log.Error("owner.question", "err", err)
		return capabilities.Wrap(capabilities.CodeConsentUnavailable, err,
			"The device's owner has to be asked, and the question could not be put.")
	}
	d.open[k] = q
	d.opts.Log.Warn("owner.asked", "question", q.ID, "call", c.Call, "tool", c.Tool, "principal", c.Principal)
	d.opts.Show(*q)
	return nil
}

// settleLocked tells the command that answered what came of it. The answer goes first:
// whoever has read that it did not count may answer again at once.
func (d *Desk) settleLocked(q *Question, a Answer, outcome, why string) {
	_ = os.Remove(filepath.Join(questionsIn(d.opts.Dir), q.ID+answerSuffix))
	if err := writeOutcome(d.opts.Dir, q.ID, Outcome{Version: 1, Answer: a.ID, Outcome: outcome, Why: why}); err != nil {
		d.opts.Log.Warn("owner.answer", "err", err)
	}
}

// Revoke takes back what stands: the person has stopped the device.
func (d *Desk) Revoke() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.standing)
	clear(d.approved)
	for k, q := range d.open {
		delete(d.open, k)
		removeQuestion(d.opts.Dir, q.ID)
	}
}

// matches compares in constant time, so that an answer's token cannot be found out
// piece by piece.
func matches(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
