package darwin

import "github.com/handrail-dev/handrail/platform"

// permission is something that a person allows a program on a page of the settings
// (System Settings, Privacy & Security).
type permission struct {
	what string // cannot be done without
	page string
	pane string // the page's name in the address that opens it
}

// The permissions that a desktop needs, and that a position does.
var (
	screenRecording  = permission{"see the screen", "Screen & System Audio Recording", "Privacy_ScreenCapture"}
	accessibility    = permission{"read other applications' elements, nor move the mouse and type", "Accessibility", "Privacy_Accessibility"}
	inputMonitoring  = permission{"notice that a person uses the mouse or the keyboard", "Input Monitoring", "Privacy_ListenEvent"}
	locationServices = permission{"know where the device is", "Location Services", "Privacy_LocationServices"}
)

// lacks says that a person has not allowed it, and where that is done.
func lacks(p permission) *platform.MissingError {
	return &platform.MissingError{
		What: "macOS does not let this program " + p.what + ".",
		Fix: "Allow it in System Settings, Privacy & Security, " + p.page +
			` (open "x-apple.systempreferences:com.apple.preference.security?` + p.pane + `"), then start the node again.`,
		Permission: true,
	}
}
