// Package mail tells people by e-mail that a call waits for them.
//
// Promises: a message says who wants which tool on which device, and the risk, with the address of
// the question in the console, and nothing of the arguments: others may read that mailbox, agents
// among them, so nothing is answered this way. It goes to the configured server over TLS whose
// certificate is good, unless that is this host; the password is a file's and is sent inside TLS
// alone. A server that is slow, gone or hostile holds nothing else up, and is read within bounds.
// A name that somebody gave cannot become a header or an address.
//
// It must never import a surface (gateway/front), the dispatcher or anything of the node plane.
package mail
