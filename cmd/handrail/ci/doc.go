// Package ci runs one command beside a gateway and a node that live for it ('handrail ci').
//
// It takes three processes. This program starts the command, passes its signals on and ends as
// the command does. The command is the second. The third, which Start starts and Serve runs, is
// the site: a gateway with a node. It lives as long as the pipe on its standard input, so that
// it ends, and its directory with it, however the first one ends.
//
// Promises: the exit code is the command's; a signal is the command's first, and the site
// serves it to the last; nothing is left behind, whichever process is killed.
//
// It must never import another package of this module: what a site is made of and what the
// command is told, its caller knows.
package ci
