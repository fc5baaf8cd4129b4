package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/gateway/api"
)

// stripHigh is how high a strip is, in its own units; it is 600 wide.
const stripHigh = 60

// strip is a row of numbers by time: the darker, the more. On a screen each bar says its numbers
// to the pointer. Paper has no pointer: there it is one shape for each darkness, so that a report
// of hundreds of rows is shown at once.
type strip struct {
	Bars   []bar
	Shapes []shape
}

// shape is all of a strip that is as dark.
type shape struct{ Class, Path string }

// strips draws the rows of one table by the same measure.
type strips struct {
	times []time.Time
	grain string
	most  int64 // the greatest number of any row
	paper bool
}

func stripsOf(s api.GovernanceSpan, paper bool) *strips {
	return &strips{times: starts(s), grain: s.Grain, most: 1, paper: paper}
}

// of draws a row. Numbers that follow each other and are as dark are one bar.
func (s *strips) of(n api.Trend) strip {
	wide := 600 / float64(max(1, len(s.times)))
	heat := func(i int) int {
		if i >= len(n) || n[i] <= 0 {
			return 0
		}
		return min(4, 1+int(3*float64(n[i])/float64(s.most)))
	}
	var out strip
	var paths [5]strings.Builder
	for i, last := 0, 0; i < len(s.times); i = last {
		sum := int64(0)
		for last = i; last < len(s.times) && heat(last) == heat(i); last++ {
			if last < len(n) {
				sum += n[last]
			}
		}
		if sum == 0 {
			continue
		}
		x, across := fixed(float64(i)*wide), fixed(max(1, float64(last-i)*wide-1))
		if s.paper {
			fmt.Fprintf(&paths[heat(i)], "M%s 0h%sv%dh-%sz", x, across, stripHigh, across)
			continue
		}
		text := fmt.Sprintf("%s: %d", stampOf(s.times[i], s.grain), sum)
		if last > i+1 {
			text = fmt.Sprintf("%s to %s: %d", stampOf(s.times[i], s.grain), stampOf(s.times[last-1], s.grain), sum)
		}
		out.Bars = append(out.Bars, bar{x, "0", across, strconv.Itoa(stripHigh), "heat" + strconv.Itoa(heat(i)), text})
	}
	for heat := range paths {
		if paths[heat].Len() > 0 {
			out.Shapes = append(out.Shapes, shape{"heat" + strconv.Itoa(heat), paths[heat].String()})
		}
	}
	return out
}
