// Package packages holds the tests of what a release consists of: it makes the packages with the
// tool that releases are made with (.ci/release), installs, upgrades and removes them, and starts
// the program that they brought.
//
// Promises: this machine's own files and packages stay as they are: packages are installed in a
// mount namespace over this system's files.
//
// It must never import the program's rooms: it knows a release by its files.
package packages
