// Package webhook tells other programs what waits for a person and how it was
// answered, and of drift, as it is recorded: a chat, a pager, a script of the admin's.
//
// Promises: each message is signed (Standard Webhooks: HMAC-SHA-256 over ID, time
// and body) and carries nothing of a call's arguments; it goes to the configured
// address and to no other (redirects are not followed), over TLS unless that is
// this host; a receiver that is slow or gone delays nobody else and is tried a
// bounded number of times; nothing can be answered this way, only told.
//
// It must never import a surface (gateway/front), the dispatcher or anything of
// the node plane.
package webhook
