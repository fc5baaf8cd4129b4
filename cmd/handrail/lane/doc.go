// Package lane is the commands about lanes: which nodes one has, and a recording of what its
// browser shows.
//
// Promises: a recording ends well with its command, and says where its file is.
//
// It must never import gateway/lane: it is a client of the REST surface.
package lane
