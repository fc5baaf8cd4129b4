package suite

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Behaviour is one thing that must be possible. How it is tried is known to the
// suite that it belongs to.
type Behaviour struct {
	ID     string // family.name; stable
	Title  string // the situation
	Proves string // what has to come of it
}

// Family is the part of the ID before the dot.
func (b *Behaviour) Family() string {
	family, _, _ := strings.Cut(b.ID, ".")
	return family
}

// Shard is part I of N; the zero value is the whole.
type Shard struct{ I, N int }

var shardForm = regexp.MustCompile(`^([0-9]{1,4})/([0-9]{1,4})$`)

// ParseShard reads "2/5".
func ParseShard(s string) (Shard, error) {
	if s == "" {
		return Shard{}, nil
	}
	m := shardForm.FindStringSubmatch(s)
	if m == nil {
		return Shard{}, fmt.Errorf("%q is not a shard such as 2/5", s)
	}
	i, _ := strconv.Atoi(m[1])
	n, _ := strconv.Atoi(m[2])
	if i < 1 || i > n {
		return Shard{}, fmt.Errorf("%q: the first number is from 1 to the second", s)
	}
	return Shard{i, n}, nil
}

// String returns "2/5", "" for the whole.
func (s Shard) String() string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.I, s.N)
}

// Of returns the shard's part of all. Neighbours go to different shards: what is
// slow stands together.
func (s Shard) Of(all []*Behaviour) []*Behaviour {
	if s.N == 0 {
		return all
	}
	var part []*Behaviour
	for i, b := range all {
		if i%s.N == s.I-1 {
			part = append(part, b)
		}
	}
	return part
}

// Select returns the behaviours whose ID matches; nil matches all.
func Select(all []*Behaviour, run *regexp.Regexp) []*Behaviour {
	if run == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(b *Behaviour) bool { return !run.MatchString(b.ID) })
}
