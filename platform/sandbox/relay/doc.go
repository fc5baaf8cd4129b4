// Package relay is how a program reaches its one door where nobody makes connections in its place,
// as on Windows: a process of ours behind the same walls, on a loopback that reaches nothing else,
// with one inherited pipe to the runner. Each connection to the relay is a stream of HTTP/2 in that
// pipe, with its own flow control. The runner makes a connection to the door for each, and to
// nothing else.
//
// Promises: it makes no connection but to the door, each from a port that was announced; it ends
// with its pipe.
//
// It must never import anything of this module: it runs behind walls, where only a pipe is.
package relay
