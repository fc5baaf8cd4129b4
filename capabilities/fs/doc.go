// Package fs is the file handler: it reads, writes and searches the files of one workspace, a
// folder that the owner named, and runs commands there.
//
// The story in the order of reading: handler.go (what is offered), path.go (how a name becomes
// a file of the workspace), read.go (read and list), write.go (write and edit), patch.go (a
// patch of several files), search.go (glob and grep), bash.go (commands), net.go (what
// commands may reach).
//
// Promises: no name, link or patch leads out of the workspace; without a workspace nothing is
// ready; what is written is whole or not at all; every result has a bound and says when it was
// cut; a command runs behind the walls of its Starter, reaches the hosts that both the owner
// and the call's envelope name, and ends as a tree at its deadline.
//
// It must never import the agent, the gateway, wire or OS code: cmd hands it the Starter.
package fs
