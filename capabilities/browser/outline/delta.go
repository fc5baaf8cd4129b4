package outline

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// A delta says how one outline became another, line by line:
//
//	@12 navigation "Main"            from line 12 of the old one, inside this
//	~   - link "Cart (2)" [ref=e4]   takes the place of a line
//	+   - link "Pay" [ref=e9]        is new
//	-   - text: Your cart is empty   is gone
//	-3  - list [ref=e7]              three lines are gone, this and those after it
//
// Lines between are as they were.

// hunk is a run of lines that changed: old[from:to] became new[start:stop].
type hunk struct{ from, to, start, stop int }

// Delta returns the hunks between two outlines as text; empty: nothing changed.
func Delta(old, now []string) string {
	var b strings.Builder
	for _, h := range diff(old, now) {
		fmt.Fprintf(&b, "@%d%s\n", h.from+1, inside(now, h.start))
		gone, come := old[h.from:h.to], now[h.start:h.stop]
		refsGone, refsCome := refsOf(gone), refsOf(come)
		for len(gone) > 0 || len(come) > 0 {
			switch {
			case len(gone) == 0:
				b.WriteString("+ " + come[0] + "\n")
				come = come[1:]
				continue
			case len(come) > 0:
				wasRole, _, was := Read(gone[0]).Parts()
				isRole, _, is := Read(come[0]).Parts()
				if was == is && (was != "" || wasRole == isRole) {
					b.WriteString("~ " + come[0] + "\n")
					gone, come = gone[1:], come[1:]
					continue
				}
				if !refsGone[is] {
					b.WriteString("+ " + come[0] + "\n")
					come = come[1:]
					continue
				}
			}
			// Lines that are gone, up to one that has its counterpart.
			n := 1
			for n < len(gone) && (len(come) == 0 || !refsCome[Read(gone[n]).Ref()]) {
				n++
			}
			first := Clip(gone[0], 120)
			if n == 1 {
				b.WriteString("- " + first + "\n")
			} else {
				fmt.Fprintf(&b, "-%d %s\n", n, first)
			}
			gone = gone[n:]
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// refsOf is the set of refs in lines, without that of lines which have none.
func refsOf(lines []string) map[string]bool {
	set := map[string]bool{}
	for _, line := range lines {
		if ref := Read(line).Ref(); ref != "" {
			set[ref] = true
		}
	}
	return set
}

// inside names what line i is in: the nearest line above it that has a name.
func inside(lines []string, i int) string {
	if i >= len(lines) {
		return ""
	}
	depth := Read(lines[i]).Depth
	for j := i - 1; j >= 0 && depth > 0; j-- {
		r := Read(lines[j])
		if r.Depth >= depth {
			continue
		}
		depth = r.Depth
		if role, name, ref := r.Parts(); name != "" {
			return " " + role + " " + Clip(fmt.Sprintf("%q", name), 60)
		} else if ref != "" {
			return " " + role + " " + ref
		}
	}
	return ""
}

// diff returns the hunks between two lists of lines, in order. It is exact, and small
// where most lines are unlike each other, as they are in an outline: their refs
// differ.
func diff(old, now []string) (hunks []hunk) {
	var walk func(a, b, c, d int)
	walk = func(a, b, c, d int) {
		for a < b && c < d && old[a] == now[c] {
			a, c = a+1, c+1
		}
		for a < b && c < d && old[b-1] == now[d-1] {
			b, d = b-1, d-1
		}
		if a == b && c == d {
			return
		}
		if a < b && c < d {
			if common := unique(old[a:b], now[c:d]); len(common) > 0 {
				i, j := a, c
				for _, p := range common {
					walk(i, a+p[0], j, c+p[1])
					i, j = a+p[0]+1, c+p[1]+1
				}
				walk(i, b, j, d)
				return
			}
		}
		if n := len(hunks); n > 0 && hunks[n-1].to == a && hunks[n-1].stop == c {
			hunks[n-1].to, hunks[n-1].stop = b, d
			return
		}
		hunks = append(hunks, hunk{a, b, c, d})
	}
	walk(0, len(old), 0, len(now))
	return hunks
}

// unique pairs the lines that both lists have exactly once, as many as stand in the
// same order in both.
func unique(old, now []string) (pairs [][2]int) {
	type place struct{ old, now, oldTimes, nowTimes int }
	places := map[string]*place{}
	at := func(line string) *place {
		p := places[line]
		if p == nil {
			p = &place{}
			places[line] = p
		}
		return p
	}
	for i, line := range old {
		p := at(line)
		p.old, p.oldTimes = i, p.oldTimes+1
	}
	for i, line := range now {
		p := at(line)
		p.now, p.nowTimes = i, p.nowTimes+1
	}
	var both []*place
	for _, p := range places {
		if p.oldTimes == 1 && p.nowTimes == 1 {
			both = append(both, p)
		}
	}
	sort.Slice(both, func(i, j int) bool { return both[i].old < both[j].old })
	// The longest run of them that rises in the new list too.
	var tails []int // index in both of the last one of the best run of each length
	before := make([]int, len(both))
	for i, p := range both {
		n := sort.Search(len(tails), func(k int) bool { return both[tails[k]].now >= p.now })
		before[i] = -1
		if n > 0 {
			before[i] = tails[n-1]
		}
		if n == len(tails) {
			tails = append(tails, i)
		} else {
			tails[n] = i
		}
	}
	if len(tails) == 0 {
		return nil
	}
	for i := tails[len(tails)-1]; i >= 0; i = before[i] {
		pairs = append(pairs, [2]int{both[i].old, both[i].now})
	}
	slices.Reverse(pairs)
	return pairs
}
