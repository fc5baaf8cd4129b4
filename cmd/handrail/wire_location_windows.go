package main

import (
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/win32"
)

// localPosition is this system's own source of positions.
func localPosition() platform.Locator { return win32.NewLocator() }
