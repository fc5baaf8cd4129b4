// Package live is where people come to watch a node, and to take it over: WHEP's
// sessions, take-overs and recordings, each of which is one call of a live capability.
//
// Promises: a session begins only as a call that policy and consent let through, and has its
// packets like any; it ends when its call does, whoever ends that, and ending it ends the call;
// nobody meets another principal's session; media does not pass through here. A person's use of a
// device's mouse and keyboard is calls like an agent's, by the same pipeline; a console that falls
// silent hands back.
//
// It must never import a node's code, WebRTC or a transport: offers, answers and
// candidates are text that it hands on.
package live
