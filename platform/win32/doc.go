// Package win32 is the desktop of a Windows session: pixels by GDI, input by
// SendInput, windows, the clipboard, the hooks that tell a person's input from
// ours, and elements by UI Automation; and where the device is, by Windows Runtime.
//
// The story in the order of reading: api_windows.go (the system's calls),
// screen_windows.go, input_windows.go with keys_windows.go, person_windows.go,
// windows_windows.go with launch_windows.go, clipboard_windows.go; then the elements
// of applications: uia.go (what UI Automation's numbers mean, on every system so
// that tests everywhere hold them against the documented order), com_windows.go,
// uia_windows.go, uiatree_windows.go, uiaact_windows.go, uiaevents.go with
// uiaevents_windows.go. By themselves stand winrt.go (what Windows Runtime's numbers
// mean) and location_windows.go.
//
// Promises: nothing is ever run through a shell; every wait is bounded; what the
// clipboard and the keyboard carry is in no error and no log; hooks and windows of
// this package end with the context they were asked under; an application that hangs
// holds up the calls about it only, and those for a bounded time.
//
// It must never import another system's desktop, the opener (platform/desktop) or
// a handler.
package win32
