//go:build linux

package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// While a server has not answered a navigation, Chrome holds the page shown back: each
// call says so, holds up no other, and the ways out that are named work.
func TestUnansweredNavigationIsNamed(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<p>here</p>`)})
	n.goTo(s.URL + "/")
	n.eval("setTimeout(()=>location='/hang'); 1")
	n.until("the server was asked", func() bool { return s.count("/hang") > 0 })
	named := func(ctx context.Context, tool string, args obj) {
		t.Helper()
		a, err := n.within(ctx, tool, args)
		if err == nil || err.Code != capabilities.CodeDeadlineExceeded || !strings.Contains(err.Message, "its server has not answered yet") || !strings.Contains(err.PublicHint(), "direction reload") {
			t.Error(tool, err, a.json)
		}
	}
	for _, tool := range []string{"snapshot", "screenshot", "evaluate"} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}) // as the runner's
		named(ctx, tool, obj{"expression": "1"})
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context()) // a call need not wait for its deadline
	defer cancel()
	named(ctx, "snapshot", obj{})
	if a := n.matched(false, obj{"text": "here", "timeout_ms": 100}); !strings.Contains(a.Evidence, "has not answered yet") {
		t.Error(a.Evidence)
	}
	n.must("navigate-back", obj{"direction": "reload"})
	if got := n.snap(); !strings.Contains(got, "here") {
		t.Error(got)
	}
}

// An action that began a navigation says so before its own deadline, however slow the
// server is; what was done is not done again.
func TestActionAnswersBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html(`<a href=/hang>Away</a><select onchange="location = '/hang'"><option>A<option>B</select>`)})
	for _, args := range []obj{{"selector": "a"}, {"selector": "a", "snapshot": "full"}, {"selector": "select", "values": []string{"B"}}} {
		tool := "click"
		if args["values"] != nil {
			tool = "select-option"
		}
		n.before(2*time.Second, func(ctx context.Context) error {
			n.goTo(s.URL + "/")
			before := s.count("/hang")
			a, err := n.within(ctx, tool, args)
			if err != nil || a.Effect != capabilities.EffectPartial || !strings.Contains(a.Evidence, "has not arrived yet") || a.m["url"] != s.URL+"/" {
				return fmt.Errorf("%v %s %s", err, a.json, a.Evidence)
			}
			if asked := s.count("/hang") - before; asked > 1 {
				t.Error("asked", asked, "times")
			}
			return nil
		})
	}
}

// So does the answer to a dialog that the page's script had asked before.
func TestDialogAnswerLeadsToSilentServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button onclick="if (confirm('Go?')) location = '/hang'">Go</button>`)})
	n := newNode(t, s.URL)
	n.before(2*time.Second, func(ctx context.Context) error {
		n.goTo(s.URL + "/")
		n.must("click", obj{"selector": "button"})
		a, err := n.within(ctx, "handle-dialog", obj{"accept": true})
		if err != nil || !strings.HasPrefix(a.Evidence, "the confirm dialog was accepted; ") || !strings.Contains(a.Evidence, "has not arrived yet") {
			return fmt.Errorf("%v %s %s", err, a.json, a.Evidence)
		}
		return nil
	})
}

// A navigation that is to be waited for by nobody is answered while the server is silent,
// and goes on; what is known at once is told as ever.
func TestNavigateWithoutWaiting(t *testing.T) {
	t.Parallel()
	s, n := newPage(t, map[string]string{"/": html("<p>here</p>")})
	n.goTo(s.URL + "/")
	a := n.must("navigate", obj{"url": s.URL + "/hang", "wait_until": "none"})
	if a.Effect != capabilities.EffectPartial || !strings.Contains(a.Evidence, "has not arrived yet") || a.m["status"] != nil {
		t.Error(a.Effect, a.Evidence, a.json)
	}
	n.until("the server was asked", func() bool { return s.count("/hang") > 0 })
	if now, _ := n.activeTab().look(); now.navigating == "" {
		t.Error("the navigation was given up")
	}
	n.goTo(s.URL + "/")
	if got := n.snap(); !strings.Contains(got, "here") {
		t.Error(got)
	}
}

// A deadline that ends a wait for a page says so, whoever words it, and not that a
// server was slow.
func TestHangingPagesAreNamed(t *testing.T) { hangingPagesAreNamed(t, "click", "snapshot") }

// Whichever tool waits for one.
func TestHangingPagesAreNamedAtLength(t *testing.T) { hangingPagesAreNamed(t) }

// hangingPagesAreNamed tries those tools; none: all.
func hangingPagesAreNamed(t *testing.T, only ...string) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<button id=b>B</button><input id=i>`), "/hangs": "", "/loop": html("<p>Text</p><script>for(;;);</script>")})
	n := newNode(t, s.URL)
	named := func(tool string, args obj, ready func()) {
		t.Helper()
		n.before(1500*time.Millisecond, func(bounded context.Context) error {
			ready()
			deadline, _ := bounded.Deadline()
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Until(deadline), &capabilities.Error{Code: capabilities.CodeDeadlineExceeded}) // as the runner's
			defer cancel()
			a, err := n.within(ctx, tool, args)
			if err == nil || err.Code != capabilities.CodeDeadlineExceeded {
				t.Fatal(tool, err, a.json, a.Evidence)
			}
			if !strings.Contains(err.Message, "The page did not answer in time: a script of it may run without end.") || !strings.Contains(err.PublicHint(), "close the tab") {
				return errors.New(tool + ": " + err.PublicMessage() + " " + err.PublicHint())
			}
			return nil
		})
	}
	for _, tc := range []struct {
		tool string
		args obj
	}{
		{"click", obj{"selector": "#b"}}, {"type", obj{"selector": "#i", "text": "x"}}, {"snapshot", obj{}}, {"screenshot", obj{}},
	} {
		if !among(only, tc.tool) {
			continue
		}
		named(tc.tool, tc.args, func() {
			n.goTo(s.URL + "/")
			before := s.count("/hangs")
			n.eval("setTimeout(()=>{const r=new XMLHttpRequest;r.open('GET','/hangs',false);r.send();for(;;);}); 1")
			for s.count("/hangs") == before { // from here on it answers nobody
				time.Sleep(time.Millisecond)
			}
		})
	}
	// Such a page can be left, also if it hangs from the start or was never asked.
	n.before(1500*time.Millisecond, func(ctx context.Context) error {
		a, err := n.within(ctx, "navigate", obj{"url": s.URL + "/loop"})
		n.goTo(s.URL + "/")
		if err != nil || a.Effect != capabilities.EffectPartial {
			return fmt.Errorf("%v %s", err, a.Evidence)
		}
		return nil
	})
	// One that hangs again at once holds its successor up: that is not the server's fault.
	n.eval("setInterval(()=>{for(;;);}); 1")
	bounded, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if _, err := n.within(bounded, "navigate", obj{"url": s.URL + "/"}); err != nil && !strings.Contains(err.Message, "a script of it") {
		t.Error(err)
	}
	n = n.on("lane-2")
	n.goTo(s.URL + "/")
	// A server that is slow still is what is named.
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if _, err := n.within(ctx, "navigate", obj{"url": s.URL + "/hang"}); err == nil || !strings.Contains(err.Message, "server did not answer") {
		t.Error(err)
	}
	// And so is a call before it.
	began, free := make(chan struct{}), make(chan struct{})
	l, err := n.h.turn(t.Context(), n.lane)
	if err != nil {
		t.Fatal(err)
	}
	go func() { close(began); <-free; l.leave() }()
	<-began
	ctx, cancel = context.WithTimeoutCause(t.Context(), 10*time.Millisecond, &capabilities.Error{Code: capabilities.CodeDeadlineExceeded})
	defer cancel()
	if _, err := n.within(ctx, "snapshot", obj{}); err == nil || !strings.Contains(err.Message, "another call of this conversation") {
		t.Error(err)
	}
	close(free)
}
