// Package firstrun opens the console in the browser of the person who has just started Handrail for
// the first time, where a person with a browser is there.
//
// Promises: the system's own opener is started by its path, without a shell; its argument is a
// plain address of this machine and never a secret, since every user of the machine can read
// arguments; what it starts outlives this process and is not ended by its Ctrl-C.
//
// It must never import anything of this module: what the page is, and whether it may be opened, is
// its caller's.
package firstrun
