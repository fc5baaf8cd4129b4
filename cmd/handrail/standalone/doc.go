// Package standalone keeps one gateway for the conversations of this machine that ask for one: the
// first conversation starts it, as a process of its own, and it ends once none has been there for a
// while.
//
// A conversation holds a shared lock of a file for as long as it lasts, so that one that is killed
// leaves nothing behind. The gateway's process is the only one that ever wants that lock for
// itself: once it gets it, nobody is there, and nobody can come until it has ended.
//
// Promises: two conversations that begin at once start one gateway; a conversation that begins
// while a gateway ends waits for that and starts the next; a gateway that refuses to start tells
// each of them why.
//
// It must never import anything of this module: it is given a command that starts a gateway, and a
// question that says whether it is up.
package standalone
