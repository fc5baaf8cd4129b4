package sensor

import (
	"testing"

	"github.com/handrail-dev/handrail/capabilities/browser/media"
)

// BenchmarkPhoto takes photos with a browser that is started for each one, and with
// one that is there.
func BenchmarkPhoto(b *testing.B) {
	const photo, args = "tyrum.camera.capture-photo", `{"facing_mode":"user","format":"jpeg"}`
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			r := newRig(b, &media.Fake{})
			r.must(photo, args)
			b.StopTimer()
			_ = r.h.Close()
			b.StartTimer()
		}
	})
	b.Run("warm", func(b *testing.B) {
		r := newRig(b, &media.Fake{})
		r.must(photo, args)
		for b.Loop() {
			r.must(photo, args)
		}
	})
}
