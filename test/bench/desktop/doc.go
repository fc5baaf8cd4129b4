// Package desktop measures the desktop family on a real X server, each figure
// beside its floor in the same run: a bare XShm grab, bare XTEST, a process of
// xdotool, and a walk of the accessible tree that asks for one element after the
// other, as most programs do it.
//
// Promises: what is typed and clicked is read back by the program that got it, so
// that a figure with a loss is a failure; nothing is measured that the tools do
// not do.
//
// It is a test, because it needs a desktop and a whole site as tests have them:
// without -figures it measures each thing once, so that it cannot rot. It may
// import anything of this module; nothing imports it.
package desktop
