package main

import (
	"encoding/json"
	"fmt"

	"github.com/handrail-dev/handrail/test/bench/figures"
)

// emptyArgs ask for a list of nodes that comes out empty.
const emptyArgs = `{"dispatchable_only":true,"tool_id":"tool.browser.click"}`

// mcp measures a tool that does nothing through MCP, beside the SDK's own server
// with such a tool: same client code, same run. Three ways: answered by the gateway
// itself (front, policy, two durable commits) with an empty list, which is as much to read
// as the bare server's answer; with a list of one node and its six tools, which is 2 kB; and
// the whole way to a node and back. The promise is the rate under load of the first; a lone
// caller waits for the disk, which the bare server never touches.
func (b *bench) mcp() error {
	p, err := b.plant("mcp")
	if err != nil {
		return err
	}
	defer p.end()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		kind := "sessions"
		if revision == "2026-07-28" {
			kind = "stateless"
		}
		for _, callers := range []int{64, 1} {
			of := func(url, token, tool, args string) *subject {
				return &subject{by: p.caller, measure: measure{Callers: callers, MS: b.ms, Target: target{
					Kind: "mcp", URL: url, Token: token, Revision: revision, Tool: tool, Args: json.RawMessage(args),
				}}}
			}
			bare := of(p.floors.MCP, "", echoWire, echoArgs)
			house := of(p.at.HTTP+"/mcp", p.at.Token, "tool_node_list", "{}")
			empty := of(p.at.HTTP+"/mcp", p.at.Token, "tool_node_list", emptyArgs)
			routed := of(p.at.HTTP+"/mcp", p.at.Token, echoWire, echoArgs)
			if err := b.alternate(house, empty, routed, bare); err != nil {
				return err
			}
			for _, way := range []struct {
				name  string
				s     *subject
				limit float64
			}{{
				"answered by the gateway", empty, 0.55,
			}, {"answered by the gateway with a list of 2 kB", house, 0}, {"the whole way to the node", routed, 0}} {
				r := row{
					Part:  "MCP no-op tool call over the bare SDK server's rate",
					What:  fmt.Sprintf("%s (%s), %s, %s", revision, kind, plural(callers, "caller"), way.name),
					Value: figures.Median(ratios(way.s.rounds.of(rate), bare.rounds.of(rate))), Unit: "×",
					Note: fmt.Sprintf("%.0f of %.0f calls/s; p50 %.2f against %.2f ms", figures.Median(way.s.rounds.of(rate)),
						figures.Median(bare.rounds.of(rate)),
						figures.Median(way.s.rounds.of(p50))/1000, figures.Median(bare.rounds.of(p50))/1000),
				}
				if callers > 1 {
					r.Limit, r.Least = way.limit, way.limit > 0
					cpu, err := b.cpuPerCall(p, way.s)
					if err != nil {
						return err
					}
					r.Note += fmt.Sprintf("; processor time per call: gateway %.0f, node %.0f, caller %.0f µs", cpu[0], cpu[1], cpu[2])
				}
				b.report.add(r)
			}
		}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprint(n, " ", what)
	}
	return fmt.Sprint(n, " ", what, "s")
}
