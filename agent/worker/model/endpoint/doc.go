// Package endpoint sends requests to a model's endpoint as JSON over HTTP, and reads what it
// answers: at once, or as server-sent events.
//
// Promises: what is read is bounded; a request is tried again only while nothing of an answer came;
// no redirect is followed, and nothing comes from the environment but proxies; the key goes to the
// endpoint alone, and is in no error, also when the endpoint repeats it.
//
// It must never import the worker: what is asked and answered are the model's package's words.
package endpoint
