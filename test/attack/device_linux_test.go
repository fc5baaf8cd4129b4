package attack

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/agent"
	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/desktop"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/consent"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/ledger"
	session "github.com/handrail-dev/handrail/platform/desktop"
	"github.com/handrail-dev/handrail/platform/notify"
	"github.com/handrail-dev/handrail/test/desk"
	"github.com/handrail-dev/handrail/test/site"
)

// notices is a notification server on a real session bus.
type notices struct {
	mu   sync.Mutex
	up   map[uint32]string // title and body
	next uint32
	ever []string
}

func (n *notices) GetCapabilities() ([]string, *dbus.Error) { return []string{"body"}, nil }

func (n *notices) Notify(_ string, replaces uint32, _, title, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if replaces == 0 {
		n.next++
		replaces = n.next
	}
	n.up[replaces] = title + "\n" + body
	n.ever = append(n.ever, n.up[replaces])
	return replaces, nil
}

func (n *notices) CloseNotification(id uint32) *dbus.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.up, id)
	return nil
}

// shows returns what is up that has text, empty if nothing has.
func (n *notices) shows(text string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.up {
		if strings.Contains(s, text) {
			return s
		}
	}
	return ""
}

func (n *notices) said(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.ever, "\n"), text)
}

func showNotices(t *testing.T, bus string) *notices {
	t.Helper()
	conn, err := dbus.Connect(bus)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	n := &notices{up: map[uint32]string{}}
	if err := conn.Export(n, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.Notifications", 0); err != nil {
		t.Fatal(err)
	}
	return n
}

// While an agent has the mouse and the keyboard, the person at the device answers by keys of
// their own: the notice says who asks what, their chord counts and is recorded as the
// device's owner's, and whatever the agent presses or runs there counts for nothing. A
// question that is over cannot be answered.
func TestThePersonAnswersAtTheDevice(t *testing.T) {
	outer := desk.StartX(t, desk.Options{NoBus: true})
	inner, window := outer.StartXephyr(desk.Options{})
	for _, e := range inner.Env {
		if name, value, _ := strings.Cut(e, "="); name != "TMPDIR" {
			t.Setenv(name, value)
		}
	}
	board := showNotices(t, inner.Getenv("DBUS_SESSION_BUS_ADDRESS"))
	log := slog.New(slog.DiscardHandler)
	opener := session.New(session.Options{Log: log})
	t.Cleanup(func() { _ = opener.Close() })
	hands, err := desktop.New(desktop.Options{Opener: opener, QuietTime: time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	s := site.Start(t, site.Options{ApprovalWait: time.Minute, Rules: site.Rules})
	a := &arena{Site: s, t: t, h: site.NewHandler(), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(a.client.CloseIdleConnections)
	a.node = s.AddNodeWith("desk", func(o *agent.Options) {
		o.HearAnswers, o.Yes, o.No, o.Notifier = hands.HearAnswers, desktop.DefaultYes, desktop.DefaultNo, notify.New(notify.Options{})
	}, a.h, hands)
	a.node.AwaitReady("tyrum.desktop.keyboard")

	ask := func(ctx context.Context, text string) <-chan capabilities.Result {
		done := make(chan capabilities.Result, 1)
		go func() {
			done <- a.Dispatcher.Call(ctx, dispatch.Request{Caller: caller("agent", "agent"), Tool: site.ToolPress, Args: []byte(fmt.Sprintf(`{"text":%q}`, text)), Surface: "test"})
		}()
		return done
	}
	// Nobody has lent anything: the console is there, and nothing is shown here.
	first := ask(context.Background(), "first")
	w := a.waiting()
	person := func(chord string) {
		t.Helper()
		outer.Activate(window)
		outer.Xdotool("mousemove", "640", "400")
		outer.Xdotool("key", chord)
	}
	person("ctrl+alt+shift+y")
	if a.h.Runs("first") != 0 {
		t.Fatal("a question that was not shown was answered")
	}
	s.Grant("agent", a.node, "tool.desktop.keyboard")
	desk.Await(t, "the notice", func() bool { return board.shows("agent asks: ") != "" })
	shown := board.shows("agent asks: ")
	for _, want := range []string{"(tool.fixture.press)", "It types 5 characters.", "text: first", "Yes, this once: Control+Alt+Shift+Y", "No: Control+Alt+Shift+N"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the notice does not say %q:\n%s", want, shown)
		}
	}

	// The agent presses them, by its tool and as a program of the session would.
	tries := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); tries++ {
		for _, keys := range []string{"Control+Alt+Shift+Y", "Control+Alt+Shift+N"} {
			r := a.Dispatcher.Call(context.Background(), dispatch.Request{Caller: caller("agent", "agent"), Tool: "tool.desktop.keyboard", Args: []byte(fmt.Sprintf(`{"action":"press","key":%q}`, keys)), Surface: "test"})
			if r.Status != capabilities.StatusOK && r.Code != capabilities.CodeInterruptedByPerson {
				t.Fatalf("the agent's hands: %+v", r)
			}
		}
		inner.Xdotool("key", "ctrl+alt+shift+y", "ctrl+alt+shift+n")
	}
	if at, err := a.Consent.Approval(w.ID); err != nil || at.State != consent.StatePending || a.h.Runs("first") != 0 {
		t.Fatalf("after %d tries of the agent: %+v %v, ran %d times", tries, at.State, err, a.h.Runs("first"))
	}

	person("ctrl+alt+shift+y")
	if r := <-first; r.Status != capabilities.StatusOK || a.h.Runs("first") != 1 {
		t.Fatalf("%+v", r)
	}
	desk.Await(t, "what became of it", func() bool { return board.said("Allowed, this once") })
	packets, err := a.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.approval.answered", Limit: 10})
	if err != nil || len(packets) != 1 {
		t.Fatalf("%d packets, %v", len(packets), err)
	}
	if p := packets[0]; p.Principal != consent.DeviceOwner(a.node.ID) || !strings.Contains(string(p.Body), `"via":"device"`) || !strings.Contains(string(p.Body), `"node":"`+string(a.node.ID)+`"`) {
		t.Errorf("recorded as %s: %s", p.Principal, p.Body)
	}

	// No, by the other chord; the person may press too early for it to count.
	second := ask(context.Background(), "second")
	desk.Await(t, "the notice", func() bool { return board.shows("text: second") != "" })
	denied := make(chan struct{})
	go func() {
		defer close(denied)
		if r := <-second; r.Code != capabilities.CodeConsentDenied {
			t.Errorf("%+v", r)
		}
	}()
	for over := false; !over; {
		person("ctrl+alt+shift+n")
		select {
		case <-denied:
			over = true
		case <-time.After(200 * time.Millisecond):
		}
	}
	if a.h.Runs("second") != 0 {
		t.Error("it ran")
	}

	// A cancelled question is off the notice; keys that come after it answer nothing, and the next
	// question has to be seen before it can be answered.
	ctx, cancel := context.WithCancel(t.Context())
	third := ask(ctx, "third")
	desk.Await(t, "the notice", func() bool { return board.shows("text: third") != "" })
	cancel()
	<-third
	desk.Await(t, "the notice to go", func() bool { return board.shows("text: third") == "" })
	fourth := ask(t.Context(), "fourth")
	person("ctrl+alt+shift+y")
	desk.Await(t, "the notice", func() bool { return board.shows("text: fourth") != "" })
	person("ctrl+alt+shift+y")
	if n := a.h.Runs("third") + a.h.Runs("fourth"); n != 0 {
		t.Errorf("ran %d times", n)
	}
	// Answered elsewhere: it goes, too.
	if _, err := a.Consent.Answer(t.Context(), a.waiting().ID, consent.Answer{By: "anna"}); err != nil {
		t.Fatal(err)
	}
	<-fourth
	desk.Await(t, "the notice to go", func() bool { return board.shows("text: fourth") == "" })
}

// A node that lies answers no question but one for its own device, as it stands, that its
// person could have judged: not another node's, not a person's, not a secret's, not what it
// was not told whole, and nothing while nobody's hands are lent there.
func TestANodeCannotAnswerForOthers(t *testing.T) {
	a := enter(t, site.Options{ApprovalWait: time.Millisecond})
	other := a.AddNode("other", site.NewHandler())
	liar := a.node
	liar.Stop()
	asked, taken := make(chan []wire.Question, 64), make(chan wire.VerdictTaken, 64)
	up := make(chan struct{}, 8)
	l, err := link.New(link.Options{
		Dir: liar.Dir, Addrs: []string{a.QUICAddr().String()},
		Serve: func(_ context.Context, _ *wire.Ticket, s link.Sink) {
			s.Answer(wire.Answer{Status: capabilities.StatusOK}, nil)
		},
		Journal: func(context.Context, *wire.JournalAsk) []wire.JournalState { return nil },
		Hello:   func() wire.Hello { return wire.Hello{Agent: "liar", Platform: "linux", Arch: "amd64"} },
		Readiness: func(context.Context) []capabilities.Readiness {
			return a.h.Readiness(context.Background())
		},
		OnQuestions:    func(list []wire.Question) { asked <- list },
		OnVerdictTaken: func(v wire.VerdictTaken) { taken <- v },
		OnState: func(s link.State) {
			if s.Connected {
				up <- struct{}{}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = l.Run(ctx) }()
	defer func() { stop(); <-done }()
	<-up
	liar.AwaitReady()
	says := func(v wire.Verdict) wire.VerdictTaken {
		t.Helper()
		if err := l.Answer(v); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-taken:
			return got
		case <-time.After(site.Within):
			t.Fatal("slow: nothing is said of an answer")
			return wire.VerdictTaken{}
		}
	}
	press := func(who dispatch.Caller, text string, on *site.Node) consent.Approval {
		t.Helper()
		before := map[string]bool{}
		for _, w := range a.Consent.Approvals() {
			before[w.ID] = true
		}
		if r := a.press(who, fmt.Sprintf(`{"text":%q,"node_id":%q}`, text, on.ID)); r.Code != capabilities.CodeApprovalPending {
			t.Fatalf("%+v", r)
		}
		for _, w := range a.Consent.Approvals() {
			if !before[w.ID] {
				return w
			}
		}
		t.Fatal("nothing waits")
		return consent.Approval{}
	}
	me := caller("agent", "main")
	mine := press(me, "mine", liar)
	if got := says(wire.Verdict{ID: mine.ID, Allow: true}); got.Code == "" {
		t.Error("answered without having been asked")
	}
	select {
	case list := <-asked:
		t.Errorf("asked while nobody's hands are lent: %v", list)
	default:
	}
	a.Grant("agent", liar, "tool.desktop.keyboard")
	a.Grant("agent", other, "tool.desktop.keyboard")
	theirs, long := press(me, "theirs", other), press(me, strings.Repeat("long ", 200), liar)
	persons := press(dispatch.Caller{Principal: "anna", Role: "operator", Lane: "anna"}, "persons", liar)
	var list []wire.Question
	for len(list) < 2 {
		select {
		case list = <-asked:
		case <-time.After(site.Within):
			t.Fatal("slow: it is not asked")
		}
	}
	if len(list) != 2 || list[0].ID != mine.ID || list[1].ID != long.ID || list[0].NoOnly || !list[1].NoOnly {
		t.Fatalf("asked %+v", list)
	}
	good := list[0].Digest()
	for what, v := range map[string]wire.Verdict{
		"another node's":      {ID: theirs.ID, Digest: good, Allow: true},
		"another node's no":   {ID: theirs.ID, Digest: good},
		"a person's":          {ID: persons.ID, Digest: good, Allow: true},
		"another question's":  {ID: long.ID, Digest: good, Allow: true},
		"no digest":           {ID: mine.ID, Allow: true},
		"not all of it shown": {ID: long.ID, Digest: list[1].Digest(), Allow: true},
		"no such question":    {ID: "a-0000000000000000", Digest: good, Allow: true},
	} {
		if got := says(v); got.Code == "" || got.ID != v.ID {
			t.Errorf("%s: %+v", what, got)
		}
	}
	for _, w := range []consent.Approval{mine, theirs, long, persons} {
		if at, err := a.Consent.Approval(w.ID); err != nil || at.State != consent.StatePending {
			t.Errorf("%s: %+v %v", w.ID, at.State, err)
		}
	}
	// The controls: yes to what was shown, once, and no to what was not shown whole.
	if got := says(wire.Verdict{ID: mine.ID, Digest: good, Allow: true}); got.Code != "" {
		t.Errorf("%+v", got)
	}
	if got := says(wire.Verdict{ID: mine.ID, Digest: good, Allow: true}); got.Code != capabilities.CodeConflict {
		t.Errorf("twice: %+v", got)
	}
	if got := says(wire.Verdict{ID: long.ID, Digest: list[1].Digest()}); got.Code != "" {
		t.Errorf("%+v", got)
	}
	for id, want := range map[string]consent.State{mine.ID: consent.StateAllowed, long.ID: consent.StateDenied, theirs.ID: consent.StatePending, persons.ID: consent.StatePending} {
		if at, err := a.Consent.Approval(id); err != nil || at.State != want {
			t.Errorf("%s is %s, want %s", id, at.State, want)
		}
	}
}
