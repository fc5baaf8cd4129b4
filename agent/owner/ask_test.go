package owner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// deskTest is a desk whose clock a test turns.
type deskTest struct {
	*Desk
	t      *testing.T
	dir    string
	mu     sync.Mutex
	now    time.Time
	then   func() // once, right after somebody has read the clock
	said   []Event
	failed error
	asked  chan Question
}

func newDesk(t *testing.T) *deskTest {
	t.Helper()
	d := &deskTest{t: t, dir: t.TempDir(), now: noon, asked: make(chan Question, 64)}
	desk, err := NewDesk(DeskOptions{
		Dir: d.dir, Show: func(q Question) { d.asked <- q }, Look: func() time.Duration { return time.Millisecond },
		Now:    d.clock,
		Record: func(e Event) error { d.mu.Lock(); defer d.mu.Unlock(); d.said = append(d.said, e); return d.failed },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Desk = desk
	return d
}

func (d *deskTest) clock() time.Time {
	d.mu.Lock()
	now, then := d.now, d.then
	d.then = nil
	d.mu.Unlock()
	if then != nil {
		then()
	}
	return now
}

func (d *deskTest) pass(by time.Duration) { d.mu.Lock(); defer d.mu.Unlock(); d.now = d.now.Add(by) }

func (d *deskTest) time() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }

// ask asks in the background; the answer comes by the channel.
func (d *deskTest) ask(c Call) <-chan *capabilities.Error {
	done := make(chan *capabilities.Error, 1)
	go func() { done <- d.Ask(d.t.Context(), c) }()
	return done
}

func (d *deskTest) question() Question {
	d.t.Helper()
	select {
	case q := <-d.asked:
		return q
	case <-time.After(30 * time.Second):
		d.t.Fatal("nobody was asked")
		return Question{}
	}
}

// reply returns the question as ReadOutcome wants it.
func (d *deskTest) reply(q Question, a Answer) Question {
	d.t.Helper()
	q, err := Reply(d.dir, q.ID, a, d.time())
	if err != nil {
		d.t.Fatal(err)
	}
	return q
}

func (d *deskTest) want(done <-chan *capabilities.Error, code capabilities.Code) {
	d.t.Helper()
	select {
	case err := <-done:
		if err == nil && code != "" || err != nil && err.Code != code {
			d.t.Fatalf("%v, want %q", err, code)
		}
	case <-time.After(30 * time.Second):
		d.t.Fatal("the call still waits")
	}
}

// outcome waits for what the node makes of an answer.
func (d *deskTest) outcome(q Question) Outcome {
	d.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if o, ok := ReadOutcome(d.dir, q); ok {
			return o
		}
	}
	d.t.Fatal("the node made nothing of the answer")
	return Outcome{}
}

func click(args string) Call {
	return Call{Call: "c1", Tool: "tool.browser.click", Principal: "alice", Lane: "l", Args: []byte(args), Shown: map[string]any{"ref": "e1"}, Why: "because"}
}

func TestAYesIsForOneCall(t *testing.T) {
	d := newDesk(t)
	done := d.ask(click(`{"ref":"e1"}`))
	q := d.question()
	if q.Tool != "tool.browser.click" || q.Principal != "alice" || q.Args["ref"] != "e1" || q.Why != "because" {
		t.Errorf("asked %+v", q)
	}
	list, err := Questions(d.dir, d.time())
	if err != nil || len(list) != 1 || list[0].ID != q.ID {
		t.Fatalf("%v %v", list, err)
	}
	q = d.reply(q, Answer{Approve: true, By: "ada"})
	d.want(done, "")
	if o := d.outcome(q); o.Outcome != "approved" {
		t.Errorf("%+v", o)
	}
	if len(d.said) != 1 || !d.said[0].Approved || d.said[0].By != "ada" || d.said[0].Call.Call != "c1" {
		t.Errorf("recorded %+v", d.said)
	}
	// The same once more is another call.
	again := d.ask(click(`{"ref":"e1"}`))
	if next := d.question(); next.ID == q.ID {
		t.Error("one answer for two calls")
	} else {
		d.reply(next, Answer{})
	}
	d.want(again, capabilities.CodeConsentDenied)
}

// An answer is for the call it names: not for other arguments, another lane,
// another tool or another principal.
func TestAnAnswerIsForNothingElse(t *testing.T) {
	for name, alter := range map[string]func(*Call){
		"arguments": func(c *Call) { c.Args = []byte(`{"ref":"e2"}`) },
		"lane":      func(c *Call) { c.Lane = "m" },
		"tool":      func(c *Call) { c.Tool = "tool.browser.type" },
		"principal": func(c *Call) { c.Principal = "bob" },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			first := d.ask(click(`{"ref":"e1"}`))
			q := d.question()
			other := click(`{"ref":"e1"}`)
			alter(&other)
			second := d.ask(other)
			q2 := d.question()
			d.reply(q, Answer{Approve: true, Seconds: 600})
			d.want(first, "")
			if name == "arguments" { // ten minutes are for the tool, whatever the arguments
				d.want(second, "")
				return
			}
			d.reply(q2, Answer{})
			d.want(second, capabilities.CodeConsentDenied)
		})
	}
}

func TestAYesForAWhile(t *testing.T) {
	d := newDesk(t)
	done := d.ask(click(`{"ref":"e1"}`))
	d.reply(d.question(), Answer{Approve: true, Seconds: 24 * 3600})
	d.want(done, "")
	if d.said[0].For != MaxStanding {
		t.Errorf("for %s", d.said[0].For)
	}
	d.pass(MaxStanding - time.Second)
	d.want(d.ask(click(`{"ref":"e9"}`)), "")
	d.pass(2 * time.Second)
	done = d.ask(click(`{"ref":"e9"}`))
	d.reply(d.question(), Answer{})
	d.want(done, capabilities.CodeConsentDenied)
	// A no is not asked about again at once.
	d.want(d.ask(click(`{"ref":"e9"}`)), capabilities.CodeConsentDenied)
	select {
	case q := <-d.asked:
		t.Errorf("asked again: %+v", q)
	default:
	}
}

// A caller who gives up waiting is told so, and the identical call goes on with the same question,
// also with an answer that came meanwhile.
func TestALateAnswerIsForTheNextTry(t *testing.T) {
	d := newDesk(t)
	c := click(`{"ref":"e1"}`)
	c.Wait = 5 * time.Millisecond
	d.want(d.ask(c), capabilities.CodeApprovalPending)
	q := d.question()
	d.reply(q, Answer{Approve: true})
	if _, err := Reply(d.dir, q.ID, Answer{}, d.time()); capabilities.CodeOf(err) != capabilities.CodeConflict {
		t.Errorf("a second answer: %v", err)
	}
	d.want(d.ask(c), "")
	// A question that nobody answers ends.
	d.want(d.ask(c), capabilities.CodeApprovalPending)
	q = d.question()
	d.pass(QuestionLife)
	if _, err := Reply(d.dir, q.ID, Answer{Approve: true}, d.time()); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Errorf("an answer to what is over: %v", err)
	}
	d.want(d.ask(c), capabilities.CodeApprovalPending)
	if next := d.question(); next.ID == q.ID {
		t.Error("an old question was asked again")
	}
}

func TestOnlyTheTokenAnswers(t *testing.T) {
	d := newDesk(t)
	c := click(`{"ref":"e1"}`)
	c.Wait = 20 * time.Millisecond
	d.want(d.ask(c), capabilities.CodeApprovalPending)
	q := d.question()
	path := filepath.Join(questionsIn(d.dir), q.ID+answerSuffix)
	for _, text := range []string{"", "{", `{"version":1,"approve":true}`, `{"version":1,"approve":true,"token":"x"}`, `{"version":2,"approve":true,"token":"` + d.open[keyOf(&c)].nonce + `"}`, strings.Repeat(" ", maxQuestion+2)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d.want(d.ask(c), capabilities.CodeApprovalPending)
	}
	for _, id := range []string{"", "..", "q-../../x", "q-AAAAAAAA", "q-abcdefg"} {
		if _, err := Reply(d.dir, id, Answer{Approve: true}, d.time()); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// While an agent can type on this device, what is typed on it is no permission.
func TestHandsOnTheDeskDoNotApprove(t *testing.T) {
	d := newDesk(t)
	d.Used()
	done := d.ask(click(`{"ref":"e1"}`))
	q := d.question()
	for range 3 {
		if o := d.outcome(d.reply(q, Answer{Approve: true})); o.Outcome != "refused" || o.Why == "" {
			t.Fatalf("%+v", o)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("the call went on: %v", err)
	default:
	}
	d.pass(handsFree - time.Second)
	d.reply(q, Answer{}) // a no counts
	d.want(done, capabilities.CodeConsentDenied)

	// A yes that lends the mouse does the same, for as long.
	d = newDesk(t)
	mouse := click(`{}`)
	mouse.Tool, mouse.Input = "tool.desktop.mouse", true
	done = d.ask(mouse)
	d.reply(d.question(), Answer{Approve: true, Seconds: 300})
	d.want(done, "")
	done = d.ask(click(`{"ref":"e1"}`))
	q = d.question()
	if o := d.outcome(d.reply(q, Answer{Approve: true})); o.Outcome != "refused" {
		t.Fatalf("%+v", o)
	}
	// The answer's own time counts, also if it comes between a look at the clock and one
	// for answers.
	d.mu.Lock()
	d.then = func() {
		d.pass(5 * time.Minute)
		if _, err := Reply(d.dir, q.ID, Answer{Approve: true}, d.time()); err != nil {
			t.Error(err)
		}
	}
	d.mu.Unlock()
	d.want(done, "")
}

func TestQuestionsAreBounded(t *testing.T) {
	d := newDesk(t)
	ask := func(principal, ref string) *capabilities.Error {
		c := click(`{"ref":"` + ref + `"}`)
		c.Principal, c.Wait = capabilities.PrincipalID(principal), time.Nanosecond
		return <-d.ask(c)
	}
	for i := range maxOpenOne {
		if err := ask("alice", string(rune('a'+i))); err.Code != capabilities.CodeApprovalPending {
			t.Fatal(err)
		}
	}
	if err := ask("alice", "more"); err.Code != capabilities.CodeOverloaded {
		t.Fatal(err)
	}
	if err := ask("bob", "a"); err.Code != capabilities.CodeApprovalPending {
		t.Fatal(err)
	}
}

func TestAStopEndsWaitingAndPermissions(t *testing.T) {
	d := newDesk(t)
	done := d.ask(click(`{"ref":"e1"}`))
	d.reply(d.question(), Answer{Approve: true, Seconds: 600})
	d.want(done, "")
	d.Revoke()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := make(chan *capabilities.Error, 1)
	go func() { stopped <- d.Ask(ctx, click(`{"ref":"e1"}`)) }()
	d.question()
	cancel(&capabilities.Error{Code: capabilities.CodeStopped})
	d.want(stopped, capabilities.CodeStopped)
}

// A call that cannot be recorded does not run.
func TestAnUnrecordedYesIsNone(t *testing.T) {
	d := newDesk(t)
	d.failed = &capabilities.Error{Code: capabilities.CodeLedgerUnavailable}
	done := d.ask(click(`{"ref":"e1"}`))
	d.reply(d.question(), Answer{Approve: true})
	d.want(done, capabilities.CodeLedgerUnavailable)
}

func TestAnotherProcessClearsTheFolder(t *testing.T) {
	d := newDesk(t)
	c := click(`{"ref":"e1"}`)
	c.Wait = time.Nanosecond
	d.want(d.ask(c), capabilities.CodeApprovalPending)
	if _, err := NewDesk(DeskOptions{Dir: d.dir}); err != nil {
		t.Fatal(err)
	}
	if list, err := Questions(d.dir, d.time()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
	if list, err := Questions(filepath.Join(d.dir, "none"), d.time()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}
