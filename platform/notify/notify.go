package notify

import (
	"log/slog"
	"os"

	"github.com/handrail-dev/handrail/platform"
)

// Options of New. The zero value is the session that this process belongs to.
type Options struct {
	SessionBus string              // address of the session bus; default: as the environment says
	Getenv     func(string) string // default os.Getenv
	Log        *slog.Logger        // default: discards
}

// New makes a notifier; it opens nothing yet.
func New(o Options) platform.Notifier {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return open(o)
}
