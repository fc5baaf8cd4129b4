// Package service has the system keep a gateway or a node running, and prints what they logged.
//
// Promises: the flags that a service is to run with are checked before it is installed; a dry run
// prints every file and command, and does nothing; a node is a service of a person's session, never
// of root.
//
// It must never import gateway or agent: it is given the commands that services run.
package service
