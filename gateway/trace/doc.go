// Package trace tells an OpenTelemetry collector how calls went: one trace of each, with a span for
// each hop, by OTLP over HTTP. A call that names a span of its caller's (W3C traceparent) stands
// below that one.
//
// Promises: no span holds an argument, a result, a text or a name that a caller or a device chose:
// IDs, names of the catalog, codes and times are all there is. Telling never holds a call up: what
// the queue or the collector does not take is dropped, and counted. Nothing is sent where nobody
// named a collector, no redirect is followed, and the answers of the collector are bounded.
//
// It must never import who makes calls or serves them: dispatch says how a call went.
package trace
