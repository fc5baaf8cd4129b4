package browser

import (
	"slices"
	"strings"

	"github.com/chromedp/cdproto/target"
)

// outlineShot is a snapshot that was given: what a delta compares with, and what
// tells the role and name behind a ref whose document is gone.
type outlineShot struct {
	id        string
	tab       target.ID
	documents int // of the tab, then
	of        view
	address   string // without its fragment
	lines     []string
	size      int
}

// Bounds of what a lane recalls.
const (
	maxShots     = 24
	maxShotBytes = 1 << 20
)

// recall keeps the lane's latest snapshots, oldest first. Guarded by the lane's mu.
type recall struct {
	shots []*outlineShot
	size  int
}

// remember keeps a snapshot and drops the oldest over the bounds; those of the same
// document and view are replaced but for the last few.
func (l *lane) remember(s *outlineShot) {
	for _, line := range s.lines {
		s.size += len(line) + 16
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.recall
	r.shots = append(r.shots, s)
	r.size += s.size
	for len(r.shots) > 1 && (len(r.shots) > maxShots || r.size > maxShotBytes) {
		r.size -= r.shots[0].size
		r.shots = r.shots[1:]
	}
}

// recalled returns a snapshot of a tab by its ID; "last" is the latest of that tab
// with the given view. nil: it is not known any more.
func (l *lane) recalled(t *tab, id string, of view) *outlineShot {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.recall.shots) - 1; i >= 0; i-- {
		s := l.recall.shots[i]
		if s.tab == t.id && (s.id == id || id == "last" && s.of == of) {
			return s
		}
	}
	return nil
}

// latest returns the tab's last snapshot, nil if none was given.
func (l *lane) latest(t *tab) *outlineShot {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.recall.shots) - 1; i >= 0; i-- {
		if s := l.recall.shots[i]; s.tab == t.id {
			return s
		}
	}
	return nil
}

// was is what a ref stood for.
type was struct {
	Role string `json:"role"`
	Name string `json:"name"`
}

// whatWas returns what a ref stood for when the tab showed that address, nil if it
// is not known. A ref never means something on another page.
func (l *lane) whatWas(t *tab, ref, address string) *was {
	address = withoutFragment(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.recall.shots) - 1; i >= 0; i-- {
		s := l.recall.shots[i]
		if s.tab != t.id || s.address != address {
			continue
		}
		for _, line := range s.lines {
			if !strings.Contains(line, "[ref="+ref+"]") {
				continue
			}
			role, name, own := rowOf(line).parts()
			if own != ref || name == "" {
				continue
			}
			// Which of several alike it was, nobody can tell.
			alike := func(other string) bool {
				r, n, own := rowOf(other).parts()
				return own != "" && r == role && n == name
			}
			if i := slices.IndexFunc(s.lines, alike); slices.ContainsFunc(s.lines[i+1:], alike) {
				return nil
			}
			return &was{role, name}
		}
	}
	return nil
}

func withoutFragment(address string) string {
	address, _, _ = strings.Cut(address, "#")
	return address
}
