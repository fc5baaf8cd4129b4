package ready

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// The rule:
//
//   - At load a document is ready; fetches to its own site that began before load are
//     waited for there, 300 ms at most, with two frames for what their answers change.
//   - Before load it is ready when it is parsed, what was visible has been drawn, and for
//     150 ms none of the scripts, styles, frames or fetches that began in its first second
//     has been open.
//   - Images, media, beacons and streams never hold it, nor does a fetch older than 1 s: a
//     long poll cannot be told from a slow answer earlier.
//   - A document that shows something and goes on streaming counts as parsed after 250 ms
//     without a new element.
//   - 5 s after the document was parsed it is no longer waited for. Neither is one that
//     goes on getting elements, 5 s after it first showed something, nor one that shows
//     nothing, 5 s after it was committed.
//   - The result says what was still open.
const (
	// Still is how long a document that streams has no new element when it counts as parsed.
	Still = 250 * time.Millisecond

	fetchesLate = 300 * time.Millisecond
	quietFor    = 150 * time.Millisecond
	firstSecond = time.Second
	giveUp      = 5 * time.Second
)

// Progress is how far a document has come. Times are of this machine's clock; zero: not yet.
type Progress struct {
	Committed, Shown, Parsed, Drawn, Loaded time.Time
	Asked                                   int64 // the last request before load
}

// State is the rule's word on a document at a moment. Where only time is missing, Left is how
// much.
type State struct {
	Ready  bool
	Capped bool // it was given up
	Left   time.Duration
	Drawn  bool // it is ready once two more frames are drawn
}

// Judge applies the rule. own are the requests of the document, site its address.
func (p Progress) Judge(now time.Time, site string, own []record.Transfer) State {
	if !p.Loaded.IsZero() {
		return p.judgeLoaded(now, site, own)
	}
	since := p.Parsed
	if since.IsZero() {
		since = p.Shown
	}
	if since.IsZero() {
		since = p.Committed
	}
	switch capped := now.Sub(since) >= giveUp; {
	case since.IsZero():
		return State{}
	case capped:
		return State{Ready: true, Capped: true}
	case p.Parsed.IsZero() || p.Drawn.IsZero():
		return State{Left: giveUp - now.Sub(since)}
	}
	quiet := p.Committed
	for _, q := range own {
		if q.Main || !holdsPage[q.Kind] || q.Began.Sub(p.Committed) >= firstSecond {
			continue
		}
		fetch := isFetch[q.Kind]
		switch {
		case fetch && q.Age(now) >= firstSecond || q.Stream:
		case !q.Ended.IsZero():
			if q.Ended.After(quiet) {
				quiet = q.Ended
			}
		case fetch:
			return State{Left: firstSecond - q.Age(now)}
		default:
			return State{Left: giveUp - now.Sub(since)}
		}
	}
	if rest := quietFor - now.Sub(quiet); rest > 0 {
		return State{Left: rest}
	}
	return State{Ready: true}
}

// judgeLoaded is the rule from load on.
func (p Progress) judgeLoaded(now time.Time, site string, own []record.Transfer) State {
	end := p.Loaded.Add(fetchesLate)
	waited := false
	for _, q := range own {
		if !isFetch[q.Kind] || q.Seq > p.Asked || q.Stream || !sameSite(site, q.URL) {
			continue
		}
		switch {
		case !q.Ended.IsZero():
			waited = waited || q.Ended.After(p.Loaded) && q.Ended.Before(end)
		case q.Age(now) < firstSecond && now.Before(end):
			return State{Left: min(firstSecond-q.Age(now), end.Sub(now))}
		}
	}
	if left := end.Sub(now); waited && left > 0 && p.Drawn.Before(p.Loaded) {
		return State{Ready: true, Drawn: true, Left: left}
	}
	return State{Ready: true}
}

// Open returns those of the requests that the page was waited for and that are open: before load
// all that are, from load on those that were waited for. own is not to be used any more.
func (p Progress) Open(site string, own []record.Transfer) []record.Transfer {
	loaded := !p.Loaded.IsZero()
	return slices.DeleteFunc(own, func(q record.Transfer) bool {
		return !q.Ended.IsZero() || q.Stream || loaded && !(isFetch[q.Kind] && q.Seq <= p.Asked && sameSite(site, q.URL))
	})
}

var (
	holdsPage = map[string]bool{"script": true, "stylesheet": true, "document": true, "xhr": true, "fetch": true}
	isFetch   = map[string]bool{"xhr": true, "fetch": true}
)

// sameSite reports whether two addresses belong to one site: the same host, or names that
// are equal in what one registers. It holds up an answer for a moment at worst.
func sameSite(one, other string) bool {
	a, b := siteOf(one), siteOf(other)
	return a != "" && a == b
}

func siteOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := u.Hostname()
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	labels := strings.Split(host, ".")
	keep := 2
	if n := len(labels); n > 2 && len(labels[n-2]) <= 3 && len(labels[n-1]) == 2 {
		keep = 3 // as in co.uk
	}
	return strings.Join(labels[max(len(labels)-keep, 0):], ".")
}
