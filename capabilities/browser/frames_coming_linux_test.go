package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// An outline has what frames show that are on their way when it is asked for: whether their
// server has not answered yet, has not sent all of the document, or Chrome is about to move them
// to another process.
func TestOutlineAwaitsComingFrames(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/": html(`<div id=o></div>`)}
	s := newSite(t, pages)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if r.URL.Path == "/late" {
			time.Sleep(400 * time.Millisecond)
		}
		w.(http.Flusher).Flush()
		if r.URL.Path == "/streams" {
			fmt.Fprint(w, "<title>x</title>")
			w.(http.Flusher).Flush()
			time.Sleep(400 * time.Millisecond)
		}
		fmt.Fprint(w, "<button>Inner</button>")
	}))
	t.Cleanup(slow.Close)
	other := strings.Replace(slow.URL, "127.0.0.1", "localhost", 1)
	n := newNode(t, s.URL, slow.URL, other)
	for _, address := range []string{slow.URL + "/late", slow.URL + "/streams", other + "/late", other + "/streams"} {
		n.goTo(s.URL + "/")
		n.eval(fmt.Sprintf(`o.innerHTML = '<iframe src="%s"></iframe>'; 1`, address))
		if snap := n.snap(); !strings.Contains(snap, `button "Inner"`) {
			t.Errorf("%s: %s", address, snap)
		}
	}
}

// Neither is a frame passed over that Chrome has set up and that shows its document only then,
// nor one whose setting up takes long while much goes on.
func TestOutlineAwaitsFramesThatAreSetUp(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/in": html(``)}
	s := newSite(t, pages)
	pages["/"] = html(`<iframe src="` + elsewhere(s) + `/in"></iframe>`)
	pages["/in"] = html(`<script>setTimeout(() => document.body.innerHTML = '<button>Inner</button>', 700)</script>`)
	n := newNode(t, s.URL, elsewhere(s))
	for _, part := range []string{"coming", "set up"} {
		n.goTo(s.URL + "/")
		tab := n.tabOf()
		set := func(on bool) {
			tab.change(func(*tabState) {
				for _, f := range tab.frames.sessions {
					if part == "coming" {
						f.coming = on
					} else {
						f.ready = !on
					}
				}
			})
		}
		set(true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 100 { // more changes than anything else may count
				time.Sleep(8 * time.Millisecond)
				tab.change(func(*tabState) {})
			}
			set(false)
		}()
		if snap := n.snap(); !strings.Contains(snap, `button "Inner"`) {
			t.Errorf("%s: %s", part, snap)
		}
		<-done
	}
}

// A frame that shows nothing has a line that says so.
func TestOutlineOfAFrameThatNeverComes(t *testing.T) {
	t.Parallel()
	s := newSite(t, map[string]string{"/": html(`<div id=o></div>`)})
	n := newNode(t, s.URL)
	n.goTo(s.URL + "/")
	n.eval(`o.innerHTML = '<iframe src="/204"></iframe>'; 1`)
	for range 2 {
		wants(t, n.snap(), "-> /204", "(this frame shows nothing yet)")
	}
}
