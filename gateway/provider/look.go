package provider

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// lookAlike returns the tool of another family whose action is so nearly the same word for an
// eye that one could be taken for the other; "" for none. Tools whose words are the same on
// purpose (two servers with a tool "search") are told by their family.
func lookAlike(id capabilities.ToolID, others []capabilities.ToolID) capabilities.ToolID {
	mine := skeleton(id.Family())
	for _, o := range others {
		if o.Family() == id.Family() {
			continue
		}
		theirs := skeleton(o.Family())
		if mine == theirs || utf8.RuneCountInString(mine) > 4 && distance(mine, theirs) == 1 {
			return o
		}
	}
	return ""
}

// flagAlike has a person look at the tools of one provider that an eye takes for each other. They
// are not refused: the provider's words are its own.
func flagAlike(list []Tool) {
	first := make(map[string]int, len(list)) // the place of each word for an eye
	flag := func(d *tools.Described) {
		if !slices.Contains(d.Flags, tools.FlagLookAlike) {
			d.Flags = append(slices.Clip(d.Flags), tools.FlagLookAlike)
		}
	}
	for i := range list {
		word := skeleton(list[i].Described.Tool.Action())
		at, seen := first[word]
		if !seen {
			first[word] = i
			continue
		}
		flag(&list[at].Described)
		flag(&list[i].Described)
	}
}

// alike are characters that fonts draw alike. IDs are ASCII, so there are few.
var alike = strings.NewReplacer("0", "o", "1", "l", "i", "l", "5", "s", "vv", "w", "rn", "m", "cl", "d", "-", "")

func skeleton(s string) string { return alike.Replace(s) }

// distance is the edit distance of two short words, with swapped neighbours as one edit.
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
