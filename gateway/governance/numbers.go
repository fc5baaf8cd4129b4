package governance

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
)

// numbers are what series count, in the order of the series, each once. They do not change.
type numbers struct {
	series []int32
	n      []int64
	sum    int64
}

// numbersOf returns the numbers of a map.
func numbersOf(by map[int64]int64) numbers {
	out := numbers{series: make([]int32, 0, len(by)), n: make([]int64, 0, len(by))}
	for _, series := range slices.Sorted(maps.Keys(by)) {
		out.add(int32(series), by[series])
	}
	return out
}

// add puts a number behind the others: numbers are made by it, and by nothing else.
func (a *numbers) add(series int32, n int64) {
	a.series, a.n, a.sum = append(a.series, series), append(a.n, n), a.sum+n
}

// plus returns the sums of two.
func (a numbers) plus(b numbers) numbers {
	if len(a.series) == 0 || len(b.series) == 0 {
		if len(a.series) == 0 {
			return b
		}
		return a
	}
	most := len(a.series) + len(b.series)
	out := numbers{series: make([]int32, 0, most), n: make([]int64, 0, most), sum: a.sum + b.sum}
	from := 0
	for i, series := range b.series {
		to := from + ahead(a.series[from:], series)
		out.series, out.n = append(out.series, a.series[from:to]...), append(out.n, a.n[from:to]...)
		n := b.n[i]
		if to < len(a.series) && a.series[to] == series {
			n += a.n[to]
			to++
		}
		out.series, out.n, from = append(out.series, series), append(out.n, n), to
	}
	out.series, out.n = append(out.series, a.series[from:]...), append(out.n, a.n[from:]...)
	return out
}

// ahead returns the place of the first of a sorted list that is not below to. It looks where it
// begins first: whoever goes through a list finds the next a few places on.
func ahead(list []int32, to int32) int {
	high := 1
	for high < len(list) && list[high] < to {
		high *= 2
	}
	at, _ := slices.BinarySearch(list[:min(high+1, len(list))], to)
	return at
}

// text is how the store has them: [series, number, series, number, ...].
func (a numbers) text() string {
	text := make([]byte, 0, 2+10*len(a.series))
	text = append(text, '[')
	for i, series := range a.series {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(strconv.AppendInt(text, int64(series), 10), ',')
		text = strconv.AppendInt(text, a.n[i], 10)
	}
	return string(append(text, ']'))
}

// parse reads such a text; none is that of no numbers.
func parse(text []byte) (numbers, error) {
	if len(text) == 0 {
		return numbers{}, nil
	}
	if out, ok := quickParse(text); ok {
		return out, nil
	}
	var list []int64
	if err := json.Unmarshal(text, &list); err != nil {
		return numbers{}, fmt.Errorf("the numbers of a time: %w", err)
	}
	by := map[int64]int64{}
	for i := 1; i < len(list); i += 2 {
		if list[i-1] < 0 || list[i-1] > math.MaxInt32 {
			return numbers{}, fmt.Errorf("the numbers of a time: %d is no series", list[i-1])
		}
		by[list[i-1]] += list[i]
	}
	return numbersOf(by), nil
}

// quickParse does the same for a list as text writes it, and reports whether it is one: a page
// reads up to a million numbers.
func quickParse(text []byte) (out numbers, ok bool) {
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return out, false
	}
	out = numbers{series: make([]int32, 0, len(text)/8), n: make([]int64, 0, len(text)/8)}
	var at, n, digits int64
	last, second := int64(-1), false
	for i, c := range text[1:] {
		switch {
		case c >= '0' && c <= '9' && digits < 18:
			n, digits = 10*n+int64(c-'0'), digits+1
		case (c == ',' || c == ']' && i == len(text)-2) && digits > 0:
			switch {
			case second:
				out.add(int32(at), n)
			case n <= last || n > math.MaxInt32:
				return numbers{}, false
			default:
				last = n
			}
			at, n, digits, second = n, 0, 0, !second
		default:
			return numbers{}, false
		}
	}
	return out, !second
}
