package outlinetest

import (
	"fmt"
	"strconv"
	"strings"
)

// Apply makes the new outline out of the old one and a delta; it is how a
// reader understands one.
func Apply(old []string, text string) ([]string, error) {
	var out []string
	at := 0
	take := func(n int) error {
		if at+n > len(old) {
			return fmt.Errorf("the delta takes line %d of %d", at+n, len(old))
		}
		at += n
		return nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		var err error
		switch {
		case line == "":
		case line[0] == '@':
			number, _, _ := strings.Cut(line[1:], " ")
			n, failed := strconv.Atoi(number)
			if failed != nil || n-1 < at || n-1 > len(old) {
				return nil, fmt.Errorf("%q at line %d of %d", line, at+1, len(old))
			}
			out = append(out, old[at:n-1]...)
			at = n - 1
		case strings.HasPrefix(line, "~ "):
			out, err = append(out, line[2:]), take(1)
		case strings.HasPrefix(line, "+ "):
			out = append(out, line[2:])
		case strings.HasPrefix(line, "- "):
			err = take(1)
		case line[0] == '-':
			number, _, _ := strings.Cut(line[1:], " ")
			n, failed := strconv.Atoi(number)
			if failed != nil {
				return nil, fmt.Errorf("%q", line)
			}
			err = take(n)
		default:
			return nil, fmt.Errorf("%q", line)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(out, old[at:]...), nil
}
