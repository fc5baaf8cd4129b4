package job

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// absent is how long no worker asked until none is believed to be there: one that waits for a job
// asks at least every 25 seconds, and one that is at a job says so every few.
const absent = time.Minute

// spreadEvery is how often the other gateways of the site are told that a worker is there.
const spreadEvery = 15 * time.Second

// maxAttended bounds how many are remembered; those that are late go first.
const maxAttended = 1 << 12

// asker is who asked for jobs: a principal's worker, for all of them or for those of one lane's
// calls.
type asker struct {
	principal capabilities.PrincipalID
	under     capabilities.LaneID
}

// attends notes that a worker asked.
func (j *Jobs) attends(p capabilities.PrincipalID, under capabilities.LaneID) {
	now := j.opts.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.asked) >= maxAttended {
		for a, at := range j.asked {
			if now.Sub(at) > absent {
				delete(j.asked, a)
			}
		}
	}
	if len(j.asked) >= maxAttended {
		return
	}
	a := asker{p, under}
	j.asked[a] = now
	if j.opts.Spread == nil || now.Sub(j.spread[a]) < spreadEvery {
		return
	}
	for other, at := range j.spread {
		if now.Sub(at) > absent {
			delete(j.spread, other)
		}
	}
	j.spread[a] = now
	j.opts.Spread(p, under)
}

// Attends notes that a worker asked at another gateway of the site.
func (j *Jobs) Attends(p capabilities.PrincipalID, under capabilities.LaneID) {
	now := j.opts.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.asked) < maxAttended {
		j.asked[asker{p, under}] = now
	}
}

// Attended reports whether a worker of a principal is there for the jobs that calls of a lane
// make: one asked within the last minute, or is at a job. It is true as long as this program has
// not run for a minute: workers may be on their way back.
func (j *Jobs) Attended(p capabilities.PrincipalID, under capabilities.LaneID) bool {
	now := j.opts.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.opened
	for _, a := range []asker{{p, ""}, {p, under}} {
		if at := j.asked[a]; at.After(last) {
			last = at
		}
	}
	return now.Sub(last) <= absent
}
