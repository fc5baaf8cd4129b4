package satellites

import (
	"crypto/tls"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/provider"
)

// Host is what these commands are given of the program. All fields are required.
type Host struct {
	Version string // of this program
	Log     func(cmd *cobra.Command, verbose bool) *slog.Logger
	// Bus adds the flags by which a NATS server elsewhere is met, and returns what reads them; a
	// nil config: they say nothing.
	Bus func(*cobra.Command) func() (*tls.Config, error)
	// Start returns what starts programs behind the walls of this host.
	Start func(*slog.Logger) provider.Starter
}
