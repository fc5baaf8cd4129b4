package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// workerParts are the pages about workers; the menu has one entry for them.
var workerParts = []place{
	{"Jobs", "/console/jobs", "GET /v1/jobs"},
	{"Turns", "/console/turns", "GET /v1/turns"},
	{"Memory", "/console/memory", "GET /v1/memory"},
}

// workerPart is one of them, as the row of links above it needs it.
type workerPart struct {
	*visit
	Part string // its address
}

// Parts are all of them.
func (workerPart) Parts() []place { return workerParts }

// jobsPage is the queue of workers, with what was typed into the form for a new job.
type jobsPage struct {
	workerPart
	Jobs     []jobRow
	Workers  []shownWorker // on other machines
	Idle     bool          // jobs are due and nobody does one
	More     bool          // there are older ones
	Whose    *choice
	Text     string
	Priority string
	Schedule string
	Due      string
}

// maxJobsShown is how many jobs the page lists.
const maxJobsShown = 100

func (c *Console) jobsPage(v *visit) { v.showJobs(nil) }

func (v *visit) showJobs(problem error) {
	var list api.JobList
	err := v.get(v1("jobs")+"?limit="+strconv.Itoa(maxJobsShown), &list)
	if problem == nil {
		problem = err
	}
	f := v.r.PostForm
	shown := jobsPage{workerPart: workerPart{v, "/console/jobs"}, More: len(list.Jobs) == maxJobsShown,
		Text: f.Get("text"), Priority: orElse(f.Get("priority"), "0"), Schedule: f.Get("schedule"), Due: f.Get("due")}
	due, running := false, false
	for _, j := range list.Jobs {
		shown.Jobs = append(shown.Jobs, jobRow{v, j})
		due = due || j.State == api.JobQueued && !j.Due.After(v.con.opts.Now())
		running = running || j.State == api.JobRunning
	}
	if shown.Workers, err = v.workers(); problem == nil {
		problem = err
	}
	shown.Idle, shown.Whose = due && !running, v.whoseWorker(list.Jobs, f.Get("principal"))
	v.show(page{name: "jobs", title: "Jobs", here: "/console/jobs", live: "packet call", fault: problem, data: shown})
}

// whoseWorker is whose worker a job can be for; nil if the visitor has no choice.
func (v *visit) whoseWorker(jobs []api.Job, chosen string) *choice {
	var list api.TokenList
	if !v.Offers("GET /v1/tokens") || v.get(v1("tokens"), &list) != nil {
		return nil
	}
	var options []string
	add := func(p capabilities.PrincipalID, text string) {
		for i := 0; i < len(options); i += 2 {
			if options[i] == string(p) {
				return
			}
		}
		options = append(options, string(p), text)
	}
	for _, j := range jobs { // who had one has a worker
		if j.Principal != v.who.Principal {
			add(j.Principal, string(j.Principal))
		}
	}
	now := v.con.opts.Now()
	for _, t := range list.Tokens {
		if t.Role == "agent" && t.RevokedAt.IsZero() && (t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)) {
			add(t.Principal, string(t.Principal))
		}
	}
	add(v.who.Principal, string(v.who.Principal)+" (you)")
	c := choose("j-whose", "principal", "Whose worker does it", chosen, options...)
	return &c
}

// addJob queues a job.
func (c *Console) addJob(v *visit) {
	f := v.r.PostForm
	in := api.NewJob{
		Text: strings.TrimSpace(unixLines(f.Get("text"))), Schedule: strings.TrimSpace(f.Get("schedule")),
		Principal: capabilities.PrincipalID(f.Get("principal")),
	}
	var err error
	if s := strings.TrimSpace(f.Get("priority")); s != "" {
		if in.Priority, err = strconv.Atoi(s); err != nil {
			err = capabilities.Errorf(capabilities.CodeInvalidRequest, "a priority is from -100 to 100")
		}
	}
	if s := strings.TrimSpace(f.Get("due")); s != "" && err == nil {
		if in.Due, err = time.Parse("2006-01-02 15:04", s); err != nil {
			err = capabilities.Errorf(capabilities.CodeInvalidRequest, "Not before is no time as 2026-12-01 07:00")
		}
	}
	if err == nil {
		err = v.ask(http.MethodPost, v1("jobs"), in, nil)
	}
	if err != nil {
		v.showJobs(err)
		return
	}
	v.seeOther("/console/jobs", "queued")
}

// jobRow is one job with what can be done about it.
type jobRow struct {
	*visit
	api.Job
}

// Word is how it stands.
func (j jobRow) Word() string {
	if j.Cancel && j.State == api.JobRunning {
		return "cancelling"
	}
	return j.State
}

// Mood is the class of its word.
func (j jobRow) Mood() string {
	return map[string]string{
		api.JobQueued: "busy", api.JobRunning: "busy", api.JobDone: "good", api.JobFailed: "bad", api.JobCancelled: "no",
	}[j.State]
}

// Task is what it is about, in one line of a list.
func (j jobRow) Task() string { return capabilities.Clip(j.Text, 160) }

// Progress is how far it is, as its worker says.
func (j jobRow) Progress() string {
	if j.Taken == 0 {
		return ""
	}
	said := count(j.Calls, "call", "calls")
	if at := stageWords[j.Stage]; at != "" && j.State == api.JobRunning {
		said += ", at " + at
	}
	return said
}

// Over reports whether it has ended, so that it can only be forgotten.
func (j jobRow) Over() bool {
	return j.State == api.JobDone || j.State == api.JobFailed || j.State == api.JobCancelled
}

// CallsHref leads to the calls of its lane.
func (j jobRow) CallsHref() string {
	return "/console/calls?" + query("principal", string(j.Principal), "lane", string(j.Lane), "state", "any")
}

// jobPage is one job with the turns that its workers claim.
type jobPage struct {
	workerPart
	Job   jobRow
	Turns []turnRow
}

func (c *Console) jobPage(v *visit) { v.showJob(nil) }

func (v *visit) showJob(problem error) {
	id := v.r.PathValue("job")
	shown := jobPage{workerPart: workerPart{v, "/console/jobs"}, Job: jobRow{visit: v}}
	if err := v.get(v1("jobs", id), &shown.Job.Job); err != nil {
		v.show(page{name: "problem", title: "A job", here: "/console/jobs", fault: err})
		return
	}
	var turns api.TurnList
	err := v.get(v1("turns")+"?"+url.Values{"session": {id}, "state": {"all"}}.Encode(), &turns)
	if problem == nil {
		problem = err
	}
	for i := range turns.Turns {
		shown.Turns = append(shown.Turns, turnRow{v, turns.Turns[i]})
	}
	v.show(page{name: "job", title: "A job", here: "/console/jobs", live: "packet call", fault: problem, data: shown})
}

// cancelJob cancels a job, or forgets one that ended.
func (c *Console) cancelJob(v *visit) {
	var before, after api.Job
	id := v.r.PathValue("job")
	err := v.get(v1("jobs", id), &before)
	if err == nil {
		err = v.ask(http.MethodDelete, v1("jobs", id), nil, &after)
	}
	switch {
	case err != nil:
		v.showJobs(err)
	case jobRow{v, before}.Over():
		v.seeOther("/console/jobs", "forgotten")
	case after.State == api.JobRunning:
		v.seeOther("/console/jobs", "cancelling")
	default:
		v.seeOther("/console/jobs", "jobcancelled")
	}
}
