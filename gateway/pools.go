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
		"tools_runner_waiting": {
			"Calls that wait on devices for a place of their isolation class.", func(p wire.Pool) float64 { return float64(p.Waiting) },
		},
		"tools_runner_refused": {"Calls that connected devices refused since they started, as the queue of their isolation class was full.",
			func(p wire.Pool) float64 { return float64(p.Refused) }},
		"tools_runner_ready": {
			"Runners on devices that stand ready for programs, by isolation class.",
			func(p wire.Pool) float64 { return float64(p.Ready) },
		},
		"tools_runner_warm": {
			"Programs of connected devices that found a runner ready, by isolation class.",
			func(p wire.Pool) float64 { return float64(p.Warm) },
		},
		"tools_runner_cold": {
			"Programs of connected devices that waited for a runner of their own, by isolation class.",
			func(p wire.Pool) float64 { return float64(p.Cold) },
		},
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
