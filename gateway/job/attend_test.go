package job_test

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// TestAttended holds when a worker is believed to be there: after each of its words for a minute,
// for its own principal and lane, and for a minute after the gateway's start.
func TestAttended(t *testing.T) {
	q := open(t)
	there := func(p, lane string) bool { return q.Attended(capabilities.PrincipalID(p), capabilities.LaneID(lane)) }
	if !there("alice", "l") {
		t.Error("workers have no time to come back after a start")
	}
	q.now = q.now.Add(2 * time.Minute)
	if there("alice", "l") {
		t.Error("nobody asked, and somebody is there")
	}
	if _, err := q.Take(t.Context(), "alice", api.TakeJob{Worker: "w", Under: "l"}); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Fatal(err)
	}
	if !there("alice", "l") || there("alice", "m") || there("bob", "l") {
		t.Error("a worker for the calls of a lane is there for those alone")
	}
	one := q.put(api.NewJob{Text: "read a.txt"})
	taken, err := q.Take(t.Context(), "alice", api.TakeJob{Worker: "w"})
	if err != nil || taken.ID != one.ID {
		t.Fatal(taken, err)
	}
	for range 5 {
		q.now = q.now.Add(20 * time.Second)
		if _, err := q.Tell(t.Context(), "alice", one.ID, taken.Claim, 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	if !there("alice", "m") {
		t.Error("a worker that is at a job is not there")
	}
	q.now = q.now.Add(61 * time.Second)
	if there("alice", "m") {
		t.Error("a worker that says nothing is there")
	}
}
