// Package push tells the browsers of people that something waits for them, and of drift (Web Push:
// RFC 8030, 8188, 8291, 8292), also while no page of ours is open.
//
// Promises: only a browser in which its person asked for it is told, and no longer than
// what they signed in with is good; what is told is sealed for that one browser, so
// that the push service between sees when and how much, and no word; it is who wants
// which tool where, and none of a call's arguments; messages go to known push services
// over TLS and nowhere else, whatever address a subscription names; one that is slow or
// gone delays nobody else and is tried a bounded number of times; nothing can be
// answered this way, only told.
//
// It must never import a surface (gateway/front), the dispatcher or anything of the
// node plane.
package push
