// Package backup writes everything that a site keeps to a sealed file, and makes a data directory
// of such a file.
//
// Promises: a file that is there is never written over, and neither is a gateway; a backup that was
// not finished leaves nothing under its name, and a restore takes its place in one step; a
// passphrase is read from a file, a terminal or standard input, and is no argument.
//
// It must never import gateway/front: a backup is made of files, and no running gateway is asked.
package backup
