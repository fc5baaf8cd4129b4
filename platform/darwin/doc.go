// Package darwin is the desktop of a macOS session: pixels, input and the event
// tap of CoreGraphics, windows, the pasteboard, and the elements that
// applications publish (AX); and where the device is, by CoreLocation. All through
// purego, without cgo.
//
// The story in the order of reading: layout.go (points and pixels), keys.go, words.go (what AX's
// words and errors mean) and permission.go, which are there on every system so that tests
// everywhere hold them; then, for macOS only, api_darwin.go with foundation_darwin.go (the
// system's functions), screen_darwin.go, input_darwin.go, person_darwin.go, windows_darwin.go with
// launch_darwin.go, clipboard_darwin.go, session_darwin.go, and ax_darwin.go with
// axtree_darwin.go, axact_darwin.go and axevents_darwin.go. By themselves stand location.go (what
// CoreLocation's numbers mean, on every system) and location_darwin.go.
//
// Promises: nothing is ever run through a shell; every wait is bounded; what the
// clipboard and the keyboard carry is in no error and no log; what a person has
// not allowed is a *platform.MissingError that names the page of the settings.
// This package is compiled and vetted, and its rules are tested elsewhere; nobody
// of us has run it on a Mac.
//
// It must never import another system's desktop, the opener (platform/desktop) or
// a handler.
package darwin
