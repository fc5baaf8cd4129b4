// Package camera takes photos from Video4Linux devices in this process, without the
// second that a browser needs to start, and lists the cameras of a Linux system. It
// films nothing: there is no video encoder here; Chrome has one.
//
// Promises: listing opens no device; a device is closed when Photo returns; frames are
// decoded within bounds that are checked before anything is allocated; elsewhere than
// on Linux it says that it is not there.
//
// It must never import handlers; it knows no calls.
package camera
