package capability

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Behaviour is one thing a browser must do.
type Behaviour struct {
	ID     string // family.name; stable
	Title  string // the situation
	Proves string // what has to come of it
	pages  map[string]string
	steps  []step
	needs  need
}

// need is what a behaviour needs beyond a browser. Without it, it is not run and
// the report says so.
type need string

// needsUploads marks what needs a folder whose files the node may upload.
const needsUploads need = "a folder that the node's owner allows uploads from, named to the suite"

// Family is the part of the ID before the dot.
func (b *Behaviour) Family() string {
	family, _, _ := strings.Cut(b.ID, ".")
	return family
}

// All gives every behaviour, sorted by ID.
func All() []*Behaviour {
	all := slices.Concat(navigation(), snapshots(), clicks(), typing(), forms(), keys(), pointer(), frames(), shadow(),
		dialogs(), downloads(), uploads(), console(), network(), waiting(), emulation(), tabs(), isolation(), egress(),
		evaluation(), code(), screenshots(), failures(), storage())
	slices.SortFunc(all, func(a, b *Behaviour) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// page is a document of a behaviour, by its path below the behaviour's own
// address on both origins. The one without a path is open when the steps begin.
// In it, {A} and {B} are the behaviour's addresses on the two origins.
type page struct{ path, html string }

// html is the page that is open when the steps begin.
func html(body string) page { return page{"", body} }

// b writes one behaviour down. Its parts are pages and steps in any order; a
// step that is written out on the spot is a plain function.
func b(id, title, proves string, parts ...any) *Behaviour {
	b := &Behaviour{ID: id, Title: title, Proves: proves, pages: map[string]string{}}
	for _, p := range parts {
		switch p := p.(type) {
		case page:
			b.pages[p.path] = p.html
		case need:
			b.needs = p
		case step:
			b.steps = append(b.steps, p)
		case func(*run):
			b.steps = append(b.steps, p)
		default:
			panic(fmt.Sprintf("capability: %s has a part of type %T", id, p))
		}
	}
	return b
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

// String gives "2/5", "" for the whole.
func (s Shard) String() string {
	if s.N == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.I, s.N)
}

// Of gives the shard's part of all. Neighbours go to different shards: what is
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

// Select gives the behaviours whose ID matches; nil matches all.
func Select(all []*Behaviour, run *regexp.Regexp) []*Behaviour {
	if run == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(b *Behaviour) bool { return !run.MatchString(b.ID) })
}
