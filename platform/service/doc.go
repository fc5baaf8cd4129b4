// Package service keeps a program running on this system: the gateway as a service of the machine,
// the node as one of a person's session. It says which files that takes and which commands of the
// system, and carries both out.
//
// Promises: a plan is a pure function of the system and of what is asked for, so it can be read
// before anything is done; a file that is somebody else's is not written over; what cannot be
// switched on leaves no file behind.
//
// It must never import what the program does: it is given words of a command.
package service
