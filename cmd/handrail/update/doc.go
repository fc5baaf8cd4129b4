// Package update puts a newer release in the place of this program: it reads signed metadata at a
// place that the administrator named, fetches, checks, swaps, and swaps back if the new program
// does not become ready. It also keeps a node in the version of its gateway, where the owner of the
// device allows that.
//
// Promises: nothing that was fetched is started or put in place before the signature, the time, the
// version, the size and the hash were checked; an older or equal version is never taken; what is
// fetched is bounded in bytes and time and comes from the place that was named; the program's file
// is whole at each moment. A node's new program is put in place only after it reached the gateway,
// no call is cut off for it, and the gateway says no more than its version.
//
// It must never import the gateway's rooms, and knows no key of its own: whom to believe the
// administrator says.
package update
