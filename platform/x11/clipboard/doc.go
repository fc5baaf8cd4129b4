// Package clipboard reads and writes the text of an X server's clipboard.
//
// clipboard.go reads, and writes by serve.go, which gives the text to whoever asks for it.
//
// Promises: a program that hangs costs its call a few seconds; texts are bounded both ways, and
// large ones come in pieces; what was written is read back first, and cleared only while it is
// still there; what is concealed says so to clipboard histories.
//
// It must never import another part of the desktop.
package clipboard
