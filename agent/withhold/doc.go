// Package withhold is what a delivered secret keeps back: while it lies in the
// device's clipboard, its exact value is taken out of every text that its principal
// gets from this node, and pictures are refused (DESIGN promise 5).
//
// Promises: a call gets nothing of a secret that lay there at any moment while the
// call ran; other principals' results stay as they are, so that they can not be used
// to guess; nothing here prints or keeps a value longer than that.
//
// It must never import handlers, agent/runner, gateway or platform.
package withhold
