package main

import (
	"encoding/json"
	"fmt"
)

// mcp measures the same no-op through MCP, beside the SDK's own server with a
// tool that does nothing: same client code, same run.
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
		for _, callers := range []int{1, 64} {
			of := func(url, token string) *subject {
				return &subject{by: p.caller, measure: measure{Callers: callers, MS: b.ms, Target: target{
					Kind: "mcp", URL: url, Token: token, Revision: revision, Tool: echoWire, Args: json.RawMessage(echoArgs),
				}}}
			}
			ours, bare := of(p.at.HTTP+"/mcp", p.at.Token), of(p.floors.MCP, "")
			if err := b.alternate(ours, bare); err != nil {
				return err
			}
			b.report.add(row{
				Part: "MCP no-op tool call, the whole way to the node, over the bare SDK server's rate",
				What: fmt.Sprintf("%s (%s), %s", revision, kind, plural(callers, "caller")), Value: median(ratios(ours.rounds.of(rate), bare.rounds.of(rate))), Unit: "×", Limit: 0.6, Least: true,
				Note: fmt.Sprintf("%.0f of %.0f calls/s; p50 %.2f against %.2f ms", median(ours.rounds.of(rate)), median(bare.rounds.of(rate)),
					median(ours.rounds.of(p50))/1000, median(bare.rounds.of(p50))/1000),
			})
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
