package microphone

import (
	"log/slog"

	"github.com/handrail-dev/handrail/platform"
)

// Rate is the rate of every recording in Hz; the server resamples.
const Rate = 48000

// Options of New.
type Options struct {
	// Server is where the sound server is, as in PULSE_SERVER. Default: that variable,
	// else the session's own socket.
	Server string
	Log    *slog.Logger // default: discards
}

// Backend implements platform.Sensors for microphones.
type Backend struct {
	o   Options
	log *slog.Logger
	backend
}

var _ platform.Sensors = (*Backend)(nil)

// New makes a Backend; it connects to nothing.
func New(o Options) *Backend {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Backend{o: o, log: o.Log}
}

// Gives reports true for samples of a microphone.
func (b *Backend) Gives(kind platform.SensorKind, format platform.MediaFormat) bool {
	return kind == platform.SensorMicrophone && format == platform.FormatPCM
}
