// Package command words actions as commands of this program, for whoever reads a hint in a
// terminal, in the API or in a notice of the device. A command is made of its arguments, and
// quoted as a shell needs it: an argument that came from elsewhere stays one word. It does no I/O,
// and must never import anything but the vocabulary.
package command
