// Package traffic is what a conversation's network rules say and what a HAR file holds: which
// request a rule is about, and requests as HAR 1.2 (w3c.github.io/web-performance, HAR) in and out.
//
// The story in the order of reading: rule.go (a rule and what it matches), har.go (a recording, and
// the rules that play it).
//
// Promises: a pattern is matched in time proportional to the address; of a recording, however
// large or wrong, nothing is taken beyond the bounds, and a bad one is refused whole.
//
// It must never import anything of this module, and knows neither Chrome nor calls.
package traffic
