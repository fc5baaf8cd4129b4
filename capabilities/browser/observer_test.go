package browser

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// A download is told to a call that may start one, not to the reading call during
// which it happens to end; everything else is told to whoever is there.
func TestObservationsFindTheirCall(t *testing.T) {
	l := newLane(nil, "lane")
	var told []string
	into := func(call string) func(key, detail string) {
		return func(key, detail string) { told = append(told, call+" "+key+" "+detail) }
	}
	reading, acting := []string{observedKey}, []string{observedDownload, observedKey}
	done := l.observeInto(into("read"), reading)
	l.saw(observedDownload, "a.pdf")
	l.sawHost("example.org")
	done()
	l.sawHost("example.net")
	done = l.observeInto(into("act"), acting)
	l.saw(observedDownload, "b.pdf")
	done()
	want := []string{
		"read " + observedKey + " example.org", "act " + observedDownload + " a.pdf",
		"act " + observedKey + " example.net", "act " + observedDownload + " b.pdf",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q\nwant %q", told, want)
	}
	l.observeInto(into("nothing"), acting)()
	if len(told) != len(want) {
		t.Errorf("told twice: %q", told)
	}
}

// Whatever happens at the turn of two calls is told to one of them, once.
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
		done := l.observeInto(tell, nil)
		_, more = <-step
		done()
	}
	l.observeInto(tell, nil)()
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
	l.observeInto(func(key, detail string) { told[key+" "+detail]++ }, nil)()
	if len(told) != maxUnseen+1 || told[observedDownload+" a.pdf"] != 1 || told[observedKey+" same"] != 1 {
		t.Errorf("%d observations: %v", len(told), told)
	}
}
