package withhold

import (
	"bytes"
	"unicode/utf8"
)

// pieces finds the parts of one text in others, in time that depends on the others' length
// only: a suffix automaton. Its states stand for the places at which parts of the text end.
type pieces struct {
	least  int // characters of the shortest part that counts
	states []state
}

type state struct {
	length int32 // bytes of the longest part that ends here
	link   int32 // the state of the longest shorter part that ends elsewhere, too
	next   []step
}

type step struct {
	by byte
	to int32
}

func (s *state) step(by byte) (int32, bool) {
	for _, n := range s.next {
		if n.by == by {
			return n.to, true
		}
	}
	return 0, false
}

func (s *state) lead(by byte, to int32) {
	for i := range s.next {
		if s.next[i].by == by {
			s.next[i].to = to
			return
		}
	}
	s.next = append(s.next, step{by, to})
}

func piecesOf(text []byte, least int) *pieces {
	p := &pieces{least: least, states: make([]state, 1, 2*len(text)+1)}
	p.states[0].link = -1
	last := int32(0)
	for _, by := range text {
		last = p.grow(last, by)
	}
	return p
}

// grow adds one byte at the end (Blumer et al., 1985).
func (p *pieces) grow(last int32, by byte) int32 {
	now := int32(len(p.states))
	p.states = append(p.states, state{length: p.states[last].length + 1})
	at := last
	for ; at >= 0; at = p.states[at].link {
		if _, there := p.states[at].step(by); there {
			break
		}
		p.states[at].lead(by, now)
	}
	if at < 0 {
		return now
	}
	to, _ := p.states[at].step(by)
	if p.states[at].length+1 == p.states[to].length {
		p.states[now].link = to
		return now
	}
	clone := int32(len(p.states))
	p.states = append(p.states,
		state{length: p.states[at].length + 1, link: p.states[to].link, next: append([]step(nil), p.states[to].next...)})
	for ; at >= 0; at = p.states[at].link {
		if old, there := p.states[at].step(by); !there || old != to {
			break
		}
		p.states[at].lead(by, clone)
	}
	p.states[to].link, p.states[now].link = clone, clone
	return now
}

// spans adds the parts of data, as begin and end, that are parts of the text.
func (p *pieces) spans(data []byte, add func(begin, end int)) {
	at, length := int32(0), 0
	found := func(end int) {
		if length >= p.least {
			if begin, end := whole(data, end-length, end); p.counts(data[begin:end]) {
				add(begin, end)
			}
		}
	}
	for i, by := range data {
		to, on := p.states[at].step(by)
		if !on {
			found(i)
		}
		for !on && at != 0 {
			at = p.states[at].link
			length = int(p.states[at].length)
			to, on = p.states[at].step(by)
		}
		if !on {
			continue
		}
		at, length = to, length+1
	}
	found(len(data))
}

// whole moves the ends of a part to where characters begin.
func whole(data []byte, begin, end int) (int, int) {
	for begin < end && !utf8.RuneStart(data[begin]) {
		begin++
	}
	for end > begin && end < len(data) && !utf8.RuneStart(data[end]) {
		end--
	}
	return begin, end
}

// counts reports whether a part is long enough; a row of one and the same character says
// nothing, and rules drawn with it are everywhere.
func (p *pieces) counts(part []byte) bool {
	if utf8.RuneCount(part) < p.least {
		return false
	}
	_, first := utf8.DecodeRune(part)
	return len(bytes.TrimLeft(part, string(part[:first]))) > 0
}

func (p *pieces) wipe() {
	for i := range p.states {
		clear(p.states[i].next)
	}
	p.states = p.states[:1]
	p.states[0].next = nil
}
