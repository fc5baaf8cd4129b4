package desktop

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Two calls that paste into the same window paste into the same place.
func TestPlacesOfTwoCallsAreTheSame(t *testing.T) {
	b := newTable(t, Options{})
	b.d.AddWindow(platform.Window{Title: "Editor", Focused: true})
	place := func() capabilities.Place {
		return (&call{b.h, &capabilities.Invocation{}}).focused(t.Context())
	}
	if one, two := place(), place(); one == nil || one != two {
		t.Errorf("%v and %v", one, two)
	}
	b.d.Fail("windows.list", &platform.MissingError{What: "No."})
	if one, two := place(), place(); one == nil || one != two {
		t.Errorf("of the whole desktop: %v and %v", one, two)
	}
}
