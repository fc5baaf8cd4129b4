package bus

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// bare is a bus that knows nobody.
func bare(changed func()) *Bus {
	b := &Bus{
		opts: Options{Now: time.Now, Log: slog.New(slog.DiscardHandler), Changed: changed}, roster: map[capabilities.NodeID]*satellite{}, byKey: map[string]*satellite{},
		invites: map[string]*invite{}, refused: map[string]uint64{}, manifests: map[string]*said{}, pending: map[string]*exchange{},
	}
	b.running, b.stop = context.WithCancel(context.Background())
	return b
}

// Close ends while a question to a satellite is on its way: that looks for the connection.
func TestCloseWhileAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bare(func() {})
		b.works.Go(func() {
			<-b.running.Done()
			time.Sleep(time.Second) // Close waits by now
			b.fetch(&satellite{}, "")
		})
		b.Close()
	})
}
