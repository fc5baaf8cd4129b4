// Package health says how things stand, and what to do where they do not stand well.
//
// Promises: the doctor looks at a host, its gateway and its nodes, and changes nothing; each fault
// has its fix, told once; what could not be asked is named, and not left out; a script learns by
// the exit code whether a gateway runs and whether something has problems.
//
// It must never import gateway/front: the gateway is asked as any client asks it. It picks no code
// of an operating system: it is given a Host.
package health
