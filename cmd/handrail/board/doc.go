// Package board is the board of 'handrail tui': what waits for a person, what agents do
// and whether everything is stopped, in a terminal, with answers by single keys.
//
// Promises: a frame is a pure function of what is known and of the terminal's size;
// keys go to a question by its ID, so that what arrives or goes meanwhile never moves an
// answer to another; nothing is allowed that is not open on the screen; what agents and
// nodes wrote is escaped before it is shown.
//
// It must never import the command line or the gateway's rooms but gateway/client: it gets
// its gateway and the program's words from its caller.
package board
