package api

import (
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// The states of a job.
const (
	JobQueued    = "queued"
	JobRunning   = "running"
	JobDone      = "done"
	JobFailed    = "failed"
	JobCancelled = "cancelled"
)

// Job is what a worker is to do.
type Job struct {
	ID        string                   `json:"job_id"`
	Principal capabilities.PrincipalID `json:"principal"` // whose worker does it
	Lane      capabilities.LaneID      `json:"lane"`      // of which one job runs at a time
	Text      string                   `json:"text"`
	Pipeline  string                   `json:"pipeline,omitempty"` // a file of steps to take with the text; not in lists
	Priority  int                      `json:"priority"`           // -100 to 100, the highest first
	Schedule  string                   `json:"schedule,omitempty"`
	Due       time.Time                `json:"due_at"`
	State     string                   `json:"state"` // queued, running, done, failed or cancelled
	Run       int                      `json:"run"`   // of a schedule; from 1
	Taken     int                      `json:"taken"` // how often a worker took this run
	Worker    string                   `json:"worker,omitempty"`
	Until     time.Time                `json:"lease_until,omitzero"` // without a word of the worker another takes the job then
	Calls     int                      `json:"calls"`                // that the worker made, as it says
	Stage     string                   `json:"stage,omitempty"`      // where the worker is, as it says
	Cancel    bool                     `json:"cancel_requested,omitempty"`
	Result    string                   `json:"result,omitempty"` // the worker's words, of the last run
	Code      capabilities.Code        `json:"code,omitempty"`   // why it failed
	Created   time.Time                `json:"created_at"`
	Ended     time.Time                `json:"ended_at,omitzero"` // the last run
	Claim     string                   `json:"claim,omitempty"`   // only for the worker that took it
	// Of a sub-agent: the call that it is inside of, its lane, its tool, and all that it may call.
	Parent capabilities.CallID   `json:"parent_call_id,omitempty"`
	Under  capabilities.LaneID   `json:"parent_lane,omitempty"`
	Tool   capabilities.ToolID   `json:"tool_id,omitempty"`
	Uses   []capabilities.ToolID `json:"uses,omitempty"`
}

// NewJob is a job to queue.
type NewJob struct {
	Text     string              `json:"text"`               // may be empty with a pipeline
	Pipeline string              `json:"pipeline,omitempty"` // a file of steps to take, as the worker reads it
	Lane     capabilities.LaneID `json:"lane,omitempty"`     // default: the token's
	Priority int                 `json:"priority,omitempty"`
	Schedule string              `json:"schedule,omitempty"` // five fields as cron has them, in UTC, or @daily and the like
	Due      time.Time           `json:"due_at,omitzero"`    // default: now, or the first time of the schedule
	Request  string              `json:"request_id,omitempty"`
	// Principal is whose worker is to do it; default: one's own. Another's is for those who make
	// tokens.
	Principal capabilities.PrincipalID `json:"principal,omitempty"`
}

// TakeJob is a worker's question for the next job.
type TakeJob struct {
	Worker string `json:"worker"`
	// Fresh says that this worker has just started: the jobs it had are free again.
	Fresh bool `json:"fresh,omitempty"`
	Wait  int  `json:"wait_seconds,omitempty"` // for a job to come; at most 25
	// Under asks for the jobs of sub-agents alone that were called in that lane.
	Under capabilities.LaneID `json:"parent_lane,omitempty"`
}

// JobWord is a worker's word about a job that it has.
type JobWord struct {
	Claim  string            `json:"claim"`
	Calls  int               `json:"calls,omitempty"`
	Stage  string            `json:"stage,omitempty"`
	State  string            `json:"state,omitempty"` // done, failed, or queued to give it back; empty: it goes on
	Result string            `json:"result,omitempty"`
	Code   capabilities.Code `json:"code,omitempty"`
}

// JobList is jobs, the newest first.
type JobList struct {
	Jobs []Job `json:"jobs"`
}
