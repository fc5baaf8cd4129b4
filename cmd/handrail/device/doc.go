// Package device is the commands of a device's owner on the device itself: its stop switch, its
// questions and the owner's answers, rules, the log, and what it is used for.
//
// Promises: none of it needs a gateway, and none asks one; a question is answered by its ID alone,
// and what an agent wrote cannot drive the terminal.
//
// It must never import the gateway's rooms but what its clients may, and runs no node: the node
// reads what is written here.
package device
