// Package subagent is tools that are agents (S3-16): a task in words goes in, a summary comes out.
// A file says what one may call, for how long, and what is said of it. A worker of the
// caller's own principal takes the task as a job and carries it out as a pipeline of its own, in a
// context and a lane of its own.
//
// Promises: each call of such a worker is made inside the call of the sub-agent, by what the
// registry hands it: decided, asked about and recorded by itself under its parent's ID, with at
// most its parent's grants, and of the tools that the file names alone; after the call's end none
// is made; a task is taken once; a summary is data and marks its reader as one who read it.
//
// It must never import a surface (gateway/front), the pipeline (gateway/dispatch), the worker or a
// model: it queues, waits and lets through.
package subagent
