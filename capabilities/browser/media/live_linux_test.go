package media

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// A camera's pictures and a microphone's sound come encoded, frame by frame, a key frame
// whenever one is asked for; when the viewers go, the device is free.
func TestLive(t *testing.T) {
	b := newBackend(t, Options{})
	for _, kind := range []platform.SensorKind{platform.SensorCamera, platform.SensorMicrophone} {
		type piece struct {
			size int
			key  bool
		}
		pieces := make(chan piece, 1024)
		tune := make(chan platform.LiveTune, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- b.Live(ctx, platform.LiveOrder{Kind: kind, Bits: 400_000, Tune: tune, Frame: func(data []byte, key bool) {
				select {
				case pieces <- piece{len(data), key}:
				default:
				}
			}})
		}()
		next := func() piece {
			t.Helper()
			select {
			case p := <-pieces:
				return p
			case err := <-ended:
				t.Fatalf("%s: ended with %v", kind, err)
			case <-time.After(60 * time.Second):
				t.Fatalf("%s: nothing came", kind)
			}
			return piece{}
		}
		if p := next(); p.size == 0 || !p.key {
			t.Errorf("%s: the first is %+v", kind, p)
		}
		if kind == platform.SensorCamera {
			for next().key {
				continue
			}
			tune <- platform.LiveTune{Bits: 300_000, Key: true}
			for !next().key {
				continue
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: it ended with %v", kind, err)
		}
		if n := open(t, b); n != 0 {
			t.Errorf("%s: %d captures hold a device", kind, n)
		}
	}
}
