package browser

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

// A download is told to the call that caused it: not to the reading call during which it begins,
// and to no later one that may, also when its own has ended. Everything else is told to whoever is
// there (S1-45).
func TestObservationsFindTheirCall(t *testing.T) {
	l := newLane(nil, "lane")
	var told []string
	begin := func(call string, tool capabilities.CapabilityID, grants ...string) (done func()) {
		return l.observeInto(&capabilities.Invocation{
			Call: capabilities.CallID(call), Capability: tool, Grants: append(grants, observedKey),
			Observe: func(key, detail string) { told = append(told, call+" "+key+" "+detail) },
			Earlier: func(key, detail string, of capabilities.CallID, granted bool) {
				told = append(told, fmt.Sprint(call, " tells that ", of, " ", key, " ", detail, " ", granted))
			},
		})
	}
	const acting, reading = "tyrum.browser.click", "tyrum.browser.snapshot"
	done := begin("may", acting, observedDownload)
	l.sawDownload("a.pdf", nil)
	done()
	l.sawDownload("b.pdf", nil) // late, and granted to the call that caused it
	done = begin("read", reading)
	l.sawDownload("c.pdf", nil)
	l.sawHost("example.org")
	done()
	l.sawHost("example.net")
	done = begin("may-not", acting)
	l.sawDownload("d.pdf", nil)
	asked := l.acting() // a request is sent
	done()
	l.sawDownload("e.pdf", nil)
	done = begin("later", acting, observedDownload)
	l.sawDownload("f.pdf", nil)
	l.sawDownload("g.pdf", asked) // it is answered while another call acts, which may
	done()
	begin("last", reading)()
	want := []string{
		"may " + observedDownload + " a.pdf", "read tells that may " + observedDownload + " b.pdf true", "read " + observedKey + " example.org",
		"may-not tells that may " + observedDownload + " c.pdf true",
		"may-not " + observedKey + " example.net", "may-not " + observedDownload + " d.pdf",
		"later tells that may-not " + observedDownload + " e.pdf false", "later " + observedDownload + " f.pdf",
		"last tells that may-not " + observedDownload + " g.pdf false",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q\nwant %q", told, want)
	}
	begin("nothing", acting)()
	if len(told) != len(want) {
		t.Errorf("told twice: %q", told)
	}
}

// An event at the turn of two calls is told to one of them, once.
func TestObservationsAtTheTurnOfCalls(t *testing.T) {
	const hosts = 4 * maxUnseen
	l := newLane(nil, "lane")
	told := map[string]int{}
	tell := func(key, detail string) { told[key+" "+detail]++ } // one call at a time: the race detector holds it to that
	var sources sync.WaitGroup
	step := make(chan struct{})
	for half := range 2 {
		sources.Go(func() {
			for i := half; i < hosts; i += 2 {
				l.saw(observedDownload, fmt.Sprint(i))
				l.sawHost(fmt.Sprint(i))
				step <- struct{}{}
			}
		})
	}
	go func() { sources.Wait(); close(step) }()
	for more := true; more; { // a call for every two or less, so none is left out
		done := l.observeInto(&capabilities.Invocation{Observe: tell})
		_, more = <-step
		done()
	}
	l.observeInto(&capabilities.Invocation{Observe: tell})()
	if len(told) != 2*hosts {
		t.Errorf("%d of %d observations were told", len(told), 2*hosts)
	}
	for what, times := range told {
		if times != 1 {
			t.Errorf("%s was told %d times", what, times)
		}
	}
}

// A page that goes to many hosts between two calls leaves room for a download.
func TestObservationsAreBounded(t *testing.T) {
	l := newLane(nil, "lane")
	for i := range 10 * maxUnseen {
		l.sawHost(fmt.Sprint(i))
		l.sawHost("same")
	}
	l.saw(observedDownload, "a.pdf")
	told := map[string]int{}
	l.observeInto(&capabilities.Invocation{Observe: func(key, detail string) { told[key+" "+detail]++ }})()
	if len(told) != maxUnseen+1 || told[observedDownload+" a.pdf"] != 1 || told[observedKey+" same"] != 1 {
		t.Errorf("%d observations: %v", len(told), told)
	}
}
