package trial

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities/browser"
)

// Host is what these commands are given of the program. All fields are required.
type Host struct {
	// Sandbox adds the flag --browser-sandbox to a command; otherwise says what holds without it.
	Sandbox func(cmd *cobra.Command, otherwise string) *browser.Sandbox
	// Bare reports whether a Chrome that a command itself starts, as the account it runs under,
	// has to do without its sandbox.
	Bare func(context.Context, browser.Sandbox) bool
	// Unboxed is the name of the rule in the policy folder that accepts a browser without its sandbox.
	Unboxed string
}
