// Package wine runs tests of Windows under Wine: it builds a package's tests for Windows, and
// starts them in a prefix of its own.
//
// Promises: nothing of it is left after the test; a machine without Wine is told what to install.
//
// It must never import anything of this module.
package wine
