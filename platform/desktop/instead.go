//go:build linux || windows

package desktop

import (
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/screenshot"
)

// standIn notes that kbinani/screenshot reads desk's pixels, and why our grabber does not;
// it returns what that adds to the desktop's name.
func (o Options) standIn(desk *platform.Desktop, why error) string {
	desk.Instead = map[platform.DesktopPart]string{platform.PartScreen: "its pixels are read by " + screenshot.Name +
		", more slowly and without the pointer, since our own way did not open: " + why.Error()}
	o.Log.Warn("the pixels are read by a stand-in", "by", screenshot.Name, "why", why)
	return ", pixels by " + screenshot.Name
}
