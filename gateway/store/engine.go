package store

import "context"

// engine is what differs between the databases that a store can lie in. The queue, the groups,
// their savepoints and the answers are the store's own. Rooms write one text for all of them.
type engine interface {
	connect(ctx context.Context) error // sets Store.conn, which nobody else has
	ready() error                      // after the migrations; sets Store.readDB
	run(ctx context.Context) error     // see Store.Run
	release() error                    // before the connections are closed

	text(query string) string // a room's query, as this database reads it
	steps(m Migration) string // a room's tables, as this database makes them

	// The leader calls these.

	admit(group []*job) []*job // answers the jobs that cannot be written now; returns the others
	begin() error
	ran(j *job)    // looks at the transaction after j's function; sets Tx.fault if it cannot go on
	finish() error // nil: durable; an error: nothing is recorded
	// settle is given the group and how its commit ended. It may write it, or a part of it, again. It
	// returns what is still without an answer, and what that is.
	settle(group []*job, err error) ([]*job, error)
	faulty(err error) bool   // an error of the machine, after which the transaction cannot go on
	ruined(err error) string // why nobody knows any more what the database holds; "": somebody does
}
