package main

import (
	"strings"
	"testing"
)

// Only what serves calls until it is told to end begins anew with wide timers.
func TestStays(t *testing.T) {
	for line, want := range map[string]bool{
		"up":                              true,
		"up --no-task":                    true,
		"--data /tmp/x --json gateway":    true,
		"gateway --http 127.0.0.1:0":      true,
		"node":                            true,
		"node --data /tmp/x":              true,
		"mcp":                             true,
		"ci-site --data /tmp/x":           true,
		"":                                false,
		"version":                         false,
		"node join":                       false,
		"node --data /tmp/x status":       false,
		"ci -- go test ./...":             false,
		"call tool.browser.launch":        false,
		"call up":                         false,
		"--data gateway version":          false,
		"nothing":                         false,
		"--nothing gateway":               false,
		"__complete up":                   false,
		"help gateway":                    false,
		"secret set node":                 false,
		"policy explain --principal mcp ": false,
	} {
		if got := stays(strings.Fields(line)); got != want {
			t.Errorf("handrail %s: %t, want %t", line, got, want)
		}
	}
}
