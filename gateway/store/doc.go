// Package store is the gateway's one database: it opens SQLite or PostgreSQL, brings every
// room's tables up to date, and owns the single group-commit writer through
// which all changes pass.
//
// Promises: when Write returns nil, what its function wrote is on disk (WAL,
// synchronous FULL); callers that arrive together share one fsync, and one that
// fails takes nobody with it; a failed fsync ends all writing for good, because
// after it nobody knows what the disk holds; the WAL starts over however busy
// writers are, so it stays small, unless a reader holds on to an old state; disk
// for terminal packets is kept in reserve, and with it a store
// opens on a disk without a free byte. SQL is written
// with $1 … $n in order, and the same text serves PostgreSQL.
//
// On PostgreSQL one gateway writes a schema, under a lock and an epoch. While the server is away
// ordinary writes are refused, terminal ones wait, and a commit whose answer was lost is looked up
// before anybody is told. A server without fsync is refused. Several gateways take turns by a
// lease: one that heard nothing of the database for as long stops, before another has the schema.
// Or they write it at once: their groups have one order, and each begins with what others wrote.
//
// It must never import another room of the gateway: rooms hand in their
// migrations and their functions. No other package may import SQLite or pgx.
package store
