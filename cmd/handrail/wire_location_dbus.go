//go:build unix && !darwin

package main

import (
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/geoclue"
)

// localPosition is this system's own source of positions.
func localPosition() platform.Locator { return &geoclue.Source{} }
