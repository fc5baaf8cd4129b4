// Package pushtest is what tests of notices share: a browser that has subscribed, with
// the keys that browsers have, and a push service on this host that opens what it is
// handed as that browser would.
//
// Promises: it opens messages by HMAC and AES alone, so that it shares nothing with
// what sealed them.
//
// It must never import gateway/push, nor be imported by code that is not a test.
package pushtest
