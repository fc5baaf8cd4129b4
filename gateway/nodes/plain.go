package nodes

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// makePlain takes out of what a node says of itself what must not reach a person or
// a model: these texts stand in lists, hints and errors. Capabilities whose ID is
// none are dropped, control and formatting characters (bidirectional marks, zero
// width, tags) taken out; a host that fits no key is not reached.
func makePlain(m *wire.Readiness) {
	m.Capabilities = slices.DeleteFunc(m.Capabilities, func(c capabilities.Readiness) bool { return c.Capability.Validate() != nil })
	for i := range m.Capabilities {
		c := &m.Capabilities[i]
		c.Action = c.Action.Printable()
		c.Fix, c.Backend, c.Degraded = capabilities.Printable(c.Fix), capabilities.Printable(c.Backend), capabilities.Printable(c.Degraded)
		c.Deeper, c.Program = capabilities.Printable(c.Deeper), capabilities.Printable(c.Program)
		c.Hosts = slices.DeleteFunc(c.Hosts, func(h string) bool { return !capabilities.FitsHost(h) })
		for k := range c.Devices {
			d := &c.Devices[k]
			d.ID, d.Label, d.Facing = capabilities.Printable(d.ID), capabilities.Printable(d.Label), capabilities.Printable(d.Facing)
		}
		c.Reason, c.Isolation = capabilities.Reason(capabilities.Printable(string(c.Reason))),
			capabilities.IsolationClass(capabilities.Printable(string(c.Isolation)))
	}
}
