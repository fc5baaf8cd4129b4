package nodes

import (
	"slices"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// makePlain takes out of what a node says of itself what must not reach a person or
// a model: these texts stand in lists, hints and errors. Capabilities whose ID is
// none are dropped, control and formatting characters (bidirectional marks, zero
// width, tags) taken out.
func makePlain(m *wire.Readiness) {
	m.Capabilities = slices.DeleteFunc(m.Capabilities, func(c capabilities.Readiness) bool { return c.Capability.Validate() != nil })
	for i := range m.Capabilities {
		c := &m.Capabilities[i]
		c.Fix, c.Backend, c.Degraded = plain(c.Fix), plain(c.Backend), plain(c.Degraded)
		for k := range c.Devices {
			d := &c.Devices[k]
			d.ID, d.Label, d.Facing = plain(d.ID), plain(d.Label), plain(d.Facing)
		}
		c.Reason, c.Isolation = capabilities.Reason(plain(string(c.Reason))), capabilities.IsolationClass(plain(string(c.Isolation)))
	}
}

func plain(s string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) }
	if strings.ContainsFunc(s, hidden) {
		s = strings.Map(func(r rune) rune {
			if hidden(r) {
				return -1
			}
			return r
		}, s)
	}
	return strings.ToValidUTF8(s, "")
}
