// Package job is the queue of what workers are to do: tasks of people in their own words, each for
// the worker of one principal, with priority, time and schedule.
//
// Promises: a job is durable when its put returns, and the same request again is the same job; one
// worker at a time has it, for as long as it is heard of, and only that one says how it ended; a
// job whose worker died is taken again under the same number, by which the worker names its calls,
// so that none is carried out twice; of one lane one job runs at a time; everything is bounded.
// The ledger names a job and never its words, which go with the job.
//
// It is plumbing: it decides nothing, carries nothing out, and must never import a surface, the
// dispatcher or the registry.
package job
