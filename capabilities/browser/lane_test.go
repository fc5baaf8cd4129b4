package browser

import (
	"slices"
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
