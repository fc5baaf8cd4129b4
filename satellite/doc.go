// Package satellite is for writing a satellite: a process on a machine of yours that offers tools
// to a Handrail gateway over its bus. [Run] joins, says every five seconds that it is there, and
// carries out calls, which the gateway has decided about and recorded before they come here.
//
// A satellite is a provider, and its tools are called like any other: nobody calls one before a
// person approved what the satellite says of it. The program or the HTTP service behind it is a
// backing service (S3-10) and speaks for itself by Options.Check: a container that runs is no
// heartbeat (S3-11).
//
// Promises: a call that came twice runs once; whether a call began survives a restart, where a
// folder is given; a call ends at its deadline; results are bounded.
//
// It must never import the gateway or the agent. docs/satellites.md has the wire format for other
// languages.
package satellite
