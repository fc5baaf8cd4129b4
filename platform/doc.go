// Package platform is the vocabulary of operating-system services: the small
// types through which handlers ask for what only an OS can give, such as a
// guarded child process or an installed browser. The implementations live in
// the rooms below; cmd picks them and hands them to the handlers.
//
// Promises: it holds types and interfaces only, starts nothing and compiles on
// every OS.
//
// It must never import anything beyond the standard library: handlers of every
// family stand on it.
package platform
