// Package walls starts the programs of providers behind this system's walls: it hands what a
// provider says of a program to the sandbox, with the class that its reach needs and its door to
// the network.
//
// Promises: a program gets the class that its provider says or its reach needs, or does not start;
// one of class T0 gets no door; one that connects nowhere gets a door that says what it tried,
// where the system has doors. Tests of a whole site start programs by the same.
//
// It must never import another room of the agent, nor choose what may run: agent/provider does.
// Its caller, cmd, makes the sandbox.
package walls
