// Package modeltest is an endpoint for tests that speaks Chat Completions and Responses over real
// HTTP, streamed, and says what a script has it say; also what no endpoint should.
//
// Promises: it judges nothing that it is asked; it keeps each request's body.
//
// It must never be imported by what ships.
package modeltest
