package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/handrail-dev/handrail/gateway/api"
)

// Jobs returns the newest jobs of the token's principal, at most limit, 0 for the gateway's
// default.
func (c *Client) Jobs(ctx context.Context, limit int) ([]api.Job, error) {
	list, err := get[api.JobList](ctx, c, Query(Path("jobs"), "limit", number(limit)))
	return list.Jobs, err
}

// Job returns one.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	return get[api.Job](ctx, c, Path("jobs", id))
}

// AwaitJob returns one that runs when it is to stop or has ended, after some seconds at the latest.
func (c *Client) AwaitJob(ctx context.Context, id string, seconds int) (api.Job, error) {
	return get[api.Job](ctx, c, Query(Path("jobs", id), "wait_seconds", number(seconds)))
}

// PutJob queues a job; the same Request again is the same job.
func (c *Client) PutJob(ctx context.Context, n api.NewJob) (api.Job, error) {
	return do[api.Job](ctx, c, http.MethodPost, Path("jobs"), n)
}

// TakeJob takes the next job that is due. CodeNotFound: none came.
func (c *Client) TakeJob(ctx context.Context, t api.TakeJob) (api.Job, error) {
	return do[api.Job](ctx, c, http.MethodPost, Path("jobs", "take"), t)
}

// TellJob says that a job goes on, or how it ended. CodeForbidden: it is another worker's now.
func (c *Client) TellJob(ctx context.Context, id string, w api.JobWord) (api.Job, error) {
	return do[api.Job](ctx, c, http.MethodPost, Path("jobs", id, "word"), w)
}

// CancelJob cancels a job and its schedule, or forgets one that ended.
func (c *Client) CancelJob(ctx context.Context, id string) (api.Job, error) {
	return do[api.Job](ctx, c, http.MethodDelete, Path("jobs", id), nil)
}

// WatchJob calls fn with a job as it is, and after each change of it, until it has ended for good,
// ctx ends or fn returns an error. io.EOF: the gateway ended before the job did.
func (c *Client) WatchJob(ctx context.Context, id string, fn func(api.Job) error) error {
	return watch(ctx, c, Path("jobs", id, "events"), "job", fn, func(one *api.Job) bool {
		return one.State != api.JobQueued && one.State != api.JobRunning
	})
}

// watch calls fn with each event of a name, until one is over. io.EOF: there was none.
func watch[T any](ctx context.Context, c *Client, path, name string, fn func(T) error, over func(*T) bool) error {
	body, err := c.Open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	ended := false
	err = readEvents(body, func(e Event) error {
		var one T
		if e.Name != name {
			return nil
		}
		if err := json.Unmarshal(e.Data, &one); err != nil {
			return err
		}
		ended = over(&one)
		return fn(one)
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ended && errors.Is(err, io.EOF):
		return nil
	}
	return err
}
