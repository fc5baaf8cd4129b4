// Package frames remembers the pictures that nodes returned lately, by the IDs under which
// calls quote them: a person who is asked about a click is shown what the agent saw, and
// no new picture is taken for it.
//
// Promises: memory only, bounded in bytes and in time.
//
// It must never import anything of the gateway.
package frames
