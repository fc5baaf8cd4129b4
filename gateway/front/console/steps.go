package console

import (
	"net/url"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxSteps is how many steps of a call one page shows.
const maxSteps = 200

// stepsOf are the calls that a call made itself, the latest first.
func (v *visit) stepsOf(id capabilities.CallID) []call {
	list, err := v.callsOf(url.Values{"parent": {string(id)}, "limit": {itoa(maxSteps)}})
	if err != nil {
		return nil
	}
	return list
}
