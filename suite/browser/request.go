package browser

import (
	"strings"
	"time"

	"github.com/handrail-dev/handrail/suite"
)

// served wants the server to have been asked for a path by a request that holds
// the words in its origin, method, query or body.
func served(path string, words ...string) step {
	return func(r *run) {
		deadline := time.After(patience)
		for {
			found, changed := r.visits.matching(path)
			for _, v := range found {
				if suite.HoldsAll(v.Origin+" "+v.Method+" "+v.Query+" "+v.Body, words) {
					return
				}
			}
			select {
			case <-changed:
			case <-deadline:
				r.Fail("the server was not asked for %q with %q; it was asked for %s", path, words, r.visits)
			case <-r.ctx.Done():
				r.Fail("%v", r.ctx.Err())
			}
		}
	}
}

// times wants the server to have been asked for a path so often by now.
func times(path string, n int) step {
	return func(r *run) {
		if found, _ := r.visits.matching(path); len(found) != n {
			r.Fail("the server was asked for %q %d times, want %d", path, len(found), n)
		}
	}
}

// header wants the last request of a path to have had a header that holds want.
func header(path, name, want string) step {
	return func(r *run) {
		found, _ := r.visits.matching(path)
		if len(found) == 0 {
			r.Fail("the server was not asked for %q", path)
		}
		if got := found[len(found)-1].Header.Get(name); !strings.Contains(got, want) {
			r.Fail("the request for %q had %s: %q, want %q", path, name, got, want)
		}
	}
}
