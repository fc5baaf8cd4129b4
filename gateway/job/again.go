package job

import (
	"context"

	"github.com/handrail-dev/handrail/capabilities"
)

// Tables are those whose change by another gateway wakes workers here.
var Tables = []string{"jobs"}

// figures are what is another number when a job can be taken that could not be before, or has
// ended. The word of a worker that it is at its job changes none of them.
type figures struct{ queued, running, last, due, runs int64 }

// Again wakes those who wait for a job, or for its end, once another gateway changed one. The jobs
// themselves are read where they are needed, and taken in the store's one order.
func (j *Jobs) Again(ctx context.Context) error {
	var now figures
	if err := j.opts.Store.Read().QueryRowContext(ctx, `SELECT
		COALESCE(SUM(CASE WHEN state = 'queued' THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN state = 'running' THEN 1 ELSE 0 END), 0),
		COALESCE(MAX(job), 0), COALESCE(SUM(CASE WHEN state = 'queued' THEN due_ms % 1000000007 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN state = 'running' THEN job ELSE 0 END), 0) FROM jobs`).
		Scan(&now.queued, &now.running, &now.last, &now.due, &now.runs); err != nil {
		return err
	}
	if now == j.seen {
		j.move()
		return nil
	}
	j.seen = now
	j.tell()
	return nil
}

// Home returns which gateway's call a job is inside of.
func (j *Jobs) Home(ctx context.Context, p capabilities.PrincipalID, id string) (member string, err error) {
	rows, err := j.opts.Store.Read().QueryContext(ctx, `SELECT member FROM jobs WHERE id = $1 AND principal = $2 AND under <> ''`, id, string(p))
	if err != nil {
		return "", err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&member); err != nil {
			return "", err
		}
	}
	return member, rows.Err()
}
