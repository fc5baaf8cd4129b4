package observe

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Severity of a difference between observed and granted (S1-50). The zero value
// means no difference.
type Severity string

const (
	SeverityNone      Severity = ""
	SeverityViolation Severity = "violation" // happened outside the grants
	SeverityCritical  Severity = "critical"  // a privileged key outside the grants: the call is killed
)

const (
	maxKeys   = 64  // distinct (key, detail) pairs kept per call
	maxDetail = 253 // bytes of a detail: a host name's length
)

// Observation is one thing that happened, with how often.
type Observation struct {
	Key      string
	Detail   string
	Count    uint32
	Severity Severity
	Refused  bool // it was tried and did not happen
	// Among are the calls of which one did it, where nobody can tell which; none: the recorder's.
	Among []capabilities.CallID
	// Granted says that those of Among might do it.
	Granted bool
}

// Recorder collects the observations of one call. It is safe for concurrent use.
type Recorder struct {
	granted  map[string]bool
	critical func(key string)

	mu      sync.Mutex
	seen    map[noted]*Observation
	dropped uint32
	lost    uint32 // differences among dropped
	ran     []capabilities.Ran
}

// noted is what observations of one kind have in common.
type noted struct {
	key, detail string
	refused     bool
	among       string // their IDs
}

// NewRecorder makes a Recorder for a call that was granted those keys. critical
// (required) is called, outside any lock and possibly more than once, when a
// privileged key outside the grants was observed.
func NewRecorder(granted []string, critical func(key string)) *Recorder {
	set := make(map[string]bool, len(granted))
	for _, k := range granted {
		set[k] = true
	}
	return &Recorder{granted: set, critical: critical, seen: make(map[noted]*Observation)}
}

// Observe notes that key happened. detail is a short fact such as a host; it is
// cut at 253 bytes.
func (r *Recorder) Observe(key, detail string) {
	detail = capabilities.Clip(detail, maxDetail)
	severity := SeverityNone
	if !r.granted[key] {
		severity = SeverityViolation
		if strings.HasPrefix(key, "privileged.") {
			severity = SeverityCritical
		}
	}
	r.add(noted{key: key, detail: detail}, severity)
	if severity == SeverityCritical {
		r.critical(key)
	}
}

// Refused notes that the call tried something without a grant for it, and was kept from it; among:
// that one of those did. A privileged attempt is critical, too.
func (r *Recorder) Refused(key, detail string, among ...capabilities.CallID) {
	detail = capabilities.Clip(detail, maxDetail)
	severity := SeverityViolation
	if strings.HasPrefix(key, "privileged.") {
		severity = SeverityCritical
	}
	r.add(noted{key, detail, true, fmt.Sprint(among)}, severity, among...)
	if severity == SeverityCritical {
		r.critical(key)
	}
}

// Earlier notes that a call which has ended did something, and whether it was granted that.
func (r *Recorder) Earlier(key, detail string, call capabilities.CallID, granted bool) {
	r.Among(key, detail, granted, call)
}

// Among notes that one of those calls did something, and whether any of them was granted that.
func (r *Recorder) Among(key, detail string, granted bool, among ...capabilities.CallID) {
	severity := SeverityViolation
	if granted {
		severity = SeverityNone
	}
	r.add(noted{key: key, detail: detail[:min(len(detail), maxDetail)], among: fmt.Sprint(among)}, severity, among...)
}

// Ran notes a program of the call; at most MaxRan that differ.
func (r *Recorder) Ran(one capabilities.Ran) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ran) < capabilities.MaxRan && !slices.ContainsFunc(r.ran, one.Same) {
		r.ran = append(r.ran, one)
	}
}

// Programs returns what Ran noted.
func (r *Recorder) Programs() []capabilities.Ran {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ran)
}

func (r *Recorder) add(id noted, severity Severity, among ...capabilities.CallID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, ok := r.seen[id]; ok {
		o.Count++
		return
	}
	// A difference is never dropped in favour of something that was granted.
	if len(r.seen) >= maxKeys && (severity == SeverityNone || !r.evictGrantedLocked()) {
		r.dropped++
		if severity != SeverityNone {
			r.lost++
		}
		return
	}
	r.seen[id] = &Observation{
		Key: id.key, Detail: id.detail, Count: 1, Severity: severity, Refused: id.refused, Among: among,
		Granted: len(among) > 0 && severity == SeverityNone,
	}
}

func (r *Recorder) evictGrantedLocked() bool {
	for id, o := range r.seen {
		if o.Severity == SeverityNone {
			delete(r.seen, id)
			r.dropped += o.Count
			return true
		}
	}
	return false
}

// Lost counts the differences that the bound left out.
func (r *Recorder) Lost() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Observations returns what was seen so far, worst first, then by key and detail.
// dropped counts what the bound left out.
func (r *Recorder) Observations() (list []Observation, dropped uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.seen {
		list = append(list, *o)
	}
	rank := map[Severity]int{SeverityCritical: 0, SeverityViolation: 1, SeverityNone: 2}
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if rank[a.Severity] != rank[b.Severity] {
			return rank[a.Severity] < rank[b.Severity]
		}
		if a.Key != b.Key {
			return a.Key < b.Key
		}
		return a.Detail < b.Detail
	})
	return list, r.dropped
}
