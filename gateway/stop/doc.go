// Package stop is the site's stop switch (promise 3 of docs/architecture.md): whether it
// is on, since when and by whom, at which epoch, and what each node said of its own.
//
// Promises: a stop is in effect before it is written down, and stays in effect when
// that fails; a release is durable first; both outlive the process; the epoch grows
// with every turn, also past what a restored backup forgot, so that a node that
// knows a later one can always be told.
//
// It must never import a surface (gateway/front), the dispatcher or the node plane: it is what they
// ask. The caller checks with gateway/principal who may turn it.
package stop
