package tally

import (
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
)

const day = 24 * time.Hour

// windows are those of policy.Calls.
var windows = [...]time.Duration{time.Minute, time.Hour, day}

// Book is the calls of the last day. The zero value is empty. All methods are safe for concurrent
// use.
type Book struct {
	mu    sync.Mutex
	calls map[pair]*series
	sweep int // how many pairs there are before what nobody called for a day is looked for
}

type pair struct {
	who  capabilities.PrincipalID
	tool capabilities.ToolID
}

// series is the calls of one pair, in order of time.
type series struct {
	marks []mark
	base  int64 // calls before the first mark
	thick int   // how many marks there are before they are made fewer
}

// mark says how many calls there were up to a moment, in milliseconds since 1970, since the series
// began.
type mark struct {
	at int64
	up int64
}

// Of returns how often a principal called a tool before now.
func (b *Book) Of(who capabilities.PrincipalID, tool capabilities.ToolID, now time.Time) policy.Calls {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[pair{who, tool}].of(now)
}

// Add notes a call. Calls come in about the order of their times; one that comes late counts as the
// last.
func (b *Book) Add(who capabilities.PrincipalID, tool capabilities.ToolID, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addLocked(pair{who, tool}, at)
}

// Take notes a call if may says that it goes on, being told of those before it; of any number at
// once each is told of the others that went on. undo takes it back: it was not made after all.
func (b *Book) Take(who capabilities.PrincipalID, tool capabilities.ToolID, at time.Time,
	may func(policy.Calls) bool) (undo func(), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := pair{who, tool}
	if !may(b.calls[p].of(at)) {
		return nil, false
	}
	taken := b.addLocked(p, at)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s := b.calls[p]; s != nil {
			s.drop(taken)
		}
	}, true
}

// Past is a call of before.
type Past struct {
	Principal capabilities.PrincipalID
	Tool      capabilities.ToolID
	At        time.Time
}

// Recall adds calls that were made before all that the book has; the order of past does not matter.
func (b *Book) Recall(past []Past) {
	past = slices.Clone(past)
	sort.SliceStable(past, func(i, j int) bool { return past[i].At.Before(past[j].At) })
	var before Book
	for _, c := range past {
		before.Add(c.Principal, c.Tool, c.At)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, s := range before.calls {
		if now := b.calls[p]; now != nil {
			last := s.marks[len(s.marks)-1].up
			for _, m := range now.marks {
				s.marks = append(s.marks, mark{m.at, m.up + last})
			}
		}
		if b.calls == nil {
			b.calls = map[pair]*series{}
		}
		b.calls[p] = s
	}
}

// Next returns when counts of a principal and tool fall next, if nothing more is called: the
// soonest first.
func (b *Book) Next(who capabilities.PrincipalID, tool capabilities.ToolID, now time.Time) []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.calls[pair{who, tool}]
	if s == nil {
		return nil
	}
	var falls []int64
	for _, w := range windows {
		for i := s.first(now.Add(-w).UnixMilli()); i < len(s.marks); i++ {
			falls = append(falls, s.marks[i].at+w.Milliseconds())
		}
	}
	slices.Sort(falls)
	falls = slices.Compact(falls)
	times := make([]time.Time, len(falls))
	for i, at := range falls {
		times[i] = time.UnixMilli(at)
	}
	return times
}

func (b *Book) addLocked(p pair, at time.Time) (taken int64) {
	if b.calls == nil {
		b.calls = map[pair]*series{}
	}
	s := b.calls[p]
	if s == nil {
		b.sweepLocked(at)
		s = &series{}
		b.calls[p] = s
	}
	return s.add(at)
}

// leastPairs is how many pairs are kept before the first sweep.
const leastPairs = 1024

// sweepLocked forgets pairs of which nothing was called for a day, each time that there are twice
// as many as the last time left.
func (b *Book) sweepLocked(now time.Time) {
	if len(b.calls) < max(b.sweep, leastPairs) {
		return
	}
	for p, s := range b.calls {
		if s.first(now.Add(-day).UnixMilli()) == len(s.marks) {
			delete(b.calls, p)
		}
	}
	b.sweep = 2 * len(b.calls)
}

// first returns the first mark after a moment.
func (s *series) first(after int64) int {
	i, _ := slices.BinarySearchFunc(s.marks, after, func(m mark, at int64) int {
		if m.at <= at {
			return -1
		}
		return 1
	})
	return i
}

func (s *series) of(now time.Time) (c policy.Calls) {
	if s == nil || len(s.marks) == 0 {
		return c
	}
	last := s.marks[len(s.marks)-1].up
	since := func(w time.Duration) int64 {
		i := s.first(now.Add(-w).UnixMilli())
		if i == 0 {
			return last - s.base
		}
		return last - s.marks[i-1].up
	}
	c.Minute, c.Hour, c.Day = since(windows[0]), since(windows[1]), since(windows[2])
	return c
}

func (s *series) add(at time.Time) int64 {
	now := at.UnixMilli()
	s.thin(now)
	n := len(s.marks)
	if n > 0 && s.marks[n-1].at >= now { // also one that comes late
		s.marks[n-1].up++
		return s.marks[n-1].at
	}
	up := s.base
	if n > 0 {
		up = s.marks[n-1].up
	}
	s.marks = append(s.marks, mark{now, up + 1})
	return now
}

// drop takes one call back that was noted at that time, or that stands for it now.
func (s *series) drop(at int64) {
	i := s.first(at - 1)
	if i == len(s.marks) {
		return // a day has passed
	}
	for ; i < len(s.marks); i++ {
		s.marks[i].up--
	}
}

// leastMarks is how many marks of a series are kept as they are.
const leastMarks = 256

// thin makes marks fewer: those of the last minute stay, those of the last hour stand for a second
// each, those of the last day for a minute, and older ones go. A mark stands at the end of its
// second or minute, so no call leaves a count too early; and it is moved only once it left the
// shorter count, so that it does not come back there.
func (s *series) thin(now int64) {
	if len(s.marks) < max(s.thick, leastMarks) {
		return
	}
	const second, minute, hour = 1000, 60_000, 3_600_000
	kept := s.marks[:0]
	for _, m := range s.marks {
		switch age := now - m.at; {
		case age >= day.Milliseconds():
			s.base = m.up
			continue
		case age >= hour+minute:
			m.at = up(m.at, minute)
		case age >= minute+second:
			m.at = up(m.at, second)
		}
		if n := len(kept); n > 0 && kept[n-1].at >= m.at {
			kept[n-1].up = m.up
		} else {
			kept = append(kept, m)
		}
	}
	s.marks = kept
	s.thick = 2 * len(kept)
}

func up(at, unit int64) int64 { return (at + unit - 1) / unit * unit }
