package provider

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/agent/withhold"
	"github.com/handrail-dev/handrail/capabilities"
)

// calls are those of one provider that run, what they were kept from, and where their connections
// led. Between two moments at which a call begins or ends the same ones run, and what a server did
// or was refused meanwhile is theirs: of the one that runs, or of the provider while several did,
// with all of them named.
type calls struct {
	mu   sync.Mutex // above what follows
	open []*capabilities.Invocation
	told map[attempt]int    // how often each was refused, up to the last of those moments
	did  map[attempt]uint64 // how much of each thing was done, up to then
}

// attempt is one thing that a provider did, or tried and was kept from.
type attempt struct {
	key    string // as a capability key
	detail string // a host, or a path
}

func (a attempt) compare(b attempt) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.detail, b.detail))
}

// begin notes a call. Refusals from before it, while none ran, are no call's.
func (p *hosted) begin(inv *capabilities.Invocation) {
	c := p.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	p.settleLocked()
	c.open = append(c.open, inv)
}

// end reports what was refused while the call ran.
func (p *hosted) end(inv *capabilities.Invocation) {
	c := p.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	p.settleLocked()
	c.open = slices.DeleteFunc(c.open, func(one *capabilities.Invocation) bool { return one == inv })
}

// settleLocked reports what was done and refused since the last call began or ended.
func (p *hosted) settleLocked() {
	c := p.calls
	now := p.attempts()
	var news []attempt
	for one, n := range now {
		if n > c.told[one] && len(c.open) > 0 {
			news = append(news, one)
		}
	}
	c.told = now
	slices.SortFunc(news, attempt.compare)
	var among []capabilities.CallID
	if len(c.open) > 1 {
		for _, one := range c.open {
			among = append(among, one.Call)
		}
	}
	kept := p.credentials.withheld() // a program can put a value into the name of a host or file
	for _, one := range news {
		c.open[0].ReportRefused(one.key, kept.Text(one.detail), among...)
	}
	p.didLocked(among, kept)
}

// didLocked reports to which hosts bytes went since then, and in which folders something changed.
// Each of several calls tells of it, so that none seems to use nothing; of several that were not
// granted it one does, for one difference.
func (p *hosted) didLocked(among []capabilities.CallID, kept *withhold.Filter) {
	c := p.calls
	now := p.deeds()
	news := slices.Collect(maps.Keys(now))
	slices.SortFunc(news, attempt.compare)
	for _, deed := range news {
		if now[deed] <= c.did[deed] {
			continue
		}
		may := slices.ContainsFunc(c.open, func(one *capabilities.Invocation) bool { return slices.Contains(one.Grants, deed.key) })
		for i, one := range c.open {
			if i == 0 || may {
				one.ObserveAmong(deed.key, kept.Text(deed.detail), may, among...)
			}
		}
	}
	c.did = now
}

// deeds is how much of each thing was done, of which nobody can tell for which call.
func (p *hosted) deeds() map[attempt]uint64 {
	all := map[attempt]uint64{}
	for target, n := range p.backend.moved() {
		all[attempt{capabilities.KeyEgress, target}] = n
	}
	for folder, n := range p.backend.changes() {
		all[attempt{capabilities.KeyWrite, folder}] = uint64(n)
	}
	return all
}

// attempts is how often each thing was refused.
func (p *hosted) attempts() map[attempt]int {
	all := map[attempt]int{}
	for _, r := range p.backend.refused() {
		all[attempt{capabilities.KeyEgress, r.Target}] = r.Count
	}
	maps.Copy(all, p.backend.tried())
	for path, n := range p.backend.wrote() {
		all[attempt{capabilities.WriteKey(path), path}] = n
	}
	return all
}

// paths are those that a program was kept from, with how often.
type paths struct {
	mu    sync.Mutex // above what follows
	known map[string]int
}

// maxPaths bounds the paths that are told apart; further ones are one.
const maxPaths = 64

// morePaths stands for the paths beyond maxPaths.
const morePaths = "other files"

func (w *paths) add(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil {
		w.known = map[string]int{}
	}
	if _, known := w.known[path]; !known && len(w.known) >= maxPaths {
		path = morePaths
	}
	w.known[path]++
}

func (w *paths) all() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]int, len(w.known))
	for path, n := range w.known {
		all[path] = n
	}
	return all
}

// tries are what else a provider's programs were kept from, with how often.
type tries struct {
	mu    sync.Mutex // above what follows
	known map[attempt]int
}

// moreTries stands for the attempts beyond maxPaths.
const moreTries = "other things"

func (t *tries) add(key, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[attempt]int{}
	}
	one := attempt{key, what}
	if _, known := t.known[one]; !known && len(t.known) >= maxPaths {
		one.detail = moreTries
	}
	t.known[one]++
}

func (t *tries) all() map[attempt]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.known)
}

// misses are the paths that the programs of a provider wanted to read and were not shown, while
// somebody wants to know.
type misses struct {
	wanted paths
	until  atomic.Int64 // programs that start until then are watched, in milliseconds of the clock; 0: none
}

// watchTime is how long after a check programs are started so that their looks at files are told.
const watchTime = 10 * time.Minute

func (m *misses) tellReads() { m.until.Store(time.Now().Add(watchTime).UnixMilli()) }

func (m *misses) missed() map[string]int { return m.wanted.all() }

// teller is what a program that starts now tells of; nil: it is not watched.
func (m *misses) teller() func(path string) {
	if time.Now().UnixMilli() >= m.until.Load() {
		return nil
	}
	return m.wanted.add
}
