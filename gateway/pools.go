package gateway

import "github.com/handrail-dev/handrail/capabilities/wire"

// countPools makes the metrics of the devices' isolation classes: how many calls run in each, wait
// for a place of it, and were refused since its queue was full.
func (g *Gateway) countPools() {
	for name, m := range map[string]struct {
		help string
		read func(wire.Pool) float64
	}{
		"tools_runner_running": {"Calls that run on devices, by isolation class.", func(p wire.Pool) float64 { return float64(p.Running) }},
		"tools_runner_waiting": {"Calls that wait on devices for a place of their isolation class.", func(p wire.Pool) float64 { return float64(p.Waiting) }},
		"tools_runner_refused": {"Calls that connected devices refused since they started, as the queue of their isolation class was full.",
			func(p wire.Pool) float64 { return float64(p.Refused) }},
	} {
		g.metrics.GaugeBy(name, m.help, "isolation_class", func() map[string]float64 {
			values := map[string]float64{}
			for class, p := range g.Nodes.Pools() {
				values[string(class)] = m.read(p)
			}
			return values
		})
	}
}
