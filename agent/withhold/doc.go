// Package withhold is what a delivered secret keeps back: its value and the pieces of it are
// taken out of every text that its principal gets of the screen until the lane that it was
// delivered to ends (elsewhere it cannot be, and marks would only say which guess is right),
// and pictures and scripts are refused while it lies in the clipboard and where it was
// pasted (promise 5 of docs/architecture.md).
//
// Promises: a call gets nothing of a secret that was held at any moment while the call
// ran; other principals' results stay as they are, so that they cannot be used to guess;
// nothing here prints or keeps a value longer than that; what a restart made this room
// forget is not to be seen at all until a person says so.
//
// It must never import handlers, agent/runner, gateway or platform.
package withhold
