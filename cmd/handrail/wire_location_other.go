//go:build !unix && !windows

package main

import (
	"github.com/handrail-dev/handrail/capabilities/location"
	"github.com/handrail-dev/handrail/platform"
)

// localPosition is this system's own source of positions: none that we read.
func localPosition() platform.Locator {
	return location.None{Why: platform.MissingError{
		What: "The location service of this system is not read.", Fix: platform.Fixed,
	}}
}
