// Package win32 is the desktop of a Windows session: pixels by GDI, input by
// SendInput, windows, the clipboard, and the hooks that tell a person's input from
// ours.
//
// The story in the order of reading: api_windows.go (the system's calls),
// screen_windows.go, input_windows.go with keys_windows.go, person_windows.go,
// windows_windows.go with launch_windows.go, clipboard_windows.go. On other
// systems the package is empty.
//
// Promises: nothing is ever run through a shell; every wait is bounded; what the
// clipboard and the keyboard carry is in no error and no log; hooks and windows of
// this package end with the context they were asked under.
//
// It must never import another system's desktop, the opener (platform/desktop) or
// a handler.
package win32
