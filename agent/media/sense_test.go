package media

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// fromMulaw is G.711's table, computed the standard's way.
func fromMulaw(b byte) float64 {
	b = ^b
	v := float64((int(b&0x0f)<<3+0x84)<<(b>>4&7) - 0x84)
	if b&0x80 != 0 {
		return -v
	}
	return v
}

// power is how much of a tone is in samples of 8 kHz, of an amplitude.
func power(samples []float64, hz float64) float64 {
	var re, im float64
	for i, v := range samples {
		re += v * math.Cos(2*math.Pi*hz*float64(i)/8000)
		im += v * math.Sin(2*math.Pi*hz*float64(i)/8000)
	}
	return 2 * math.Hypot(re, im) / float64(len(samples))
}

// A tone passes as it is, and one that 8 kHz cannot hold does not come back as another.
func TestMulaw(t *testing.T) {
	for v := -32000; v <= 32000; v += 77 {
		if got := fromMulaw(toMulaw(float64(v))); math.Abs(got-float64(v)) > 8+math.Abs(float64(v))/16 {
			t.Fatalf("%d comes back as %v", v, got)
		}
	}
	for hz, passes := range map[float64]bool{440: true, 7560: false} { // which would be heard as 440
		var m mulaw
		var got []float64
		var raw []byte
		for i := range 48000 {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(int16(12000*math.Sin(2*math.Pi*hz*float64(i)/48000))))
		}
		for at := 0; at < len(raw); at += 777 { // parts that end within a sample
			m.add(raw[at:min(at+777, len(raw))], func(packet []byte) {
				if len(packet) != pcmuTick {
					t.Fatalf("a packet of %d", len(packet))
				}
				for _, b := range packet {
					got = append(got, fromMulaw(b))
				}
			})
		}
		if len(got) != 8000 {
			t.Fatalf("%d samples of a second", len(got))
		}
		if a := power(got[400:], 440); passes && math.Abs(a-12000) > 600 || !passes && a > 60 {
			t.Errorf("%v Hz comes back as 440 Hz of %.0f", hz, a)
		}
	}
}

// lacking is a microphone that says what is in its way.
type lacking struct {
	platform.Sensors
	look platform.SensorLook
}

func (lacking) Gives(platform.SensorKind, platform.MediaFormat) bool { return true }

func (l lacking) Look(context.Context, platform.SensorKind) platform.SensorLook { return l.look }

// Each obstacle to a microphone has a code of its own, with what to do.
func TestNoOutlet(t *testing.T) {
	for code, look := range map[capabilities.Code]platform.SensorLook{
		capabilities.CodeSensorRefused: {Missing: &platform.MissingError{What: "It is not allowed.", Fix: "Allow it.", Permission: true}},
		capabilities.CodeNotSupported:  {Missing: &platform.MissingError{What: "There is no sound server.", Fix: "Start one."}},
		capabilities.CodeSensorMissing: {Listed: true},
	} {
		h := &Handler{o: Options{Sensors: []platform.Sensors{lacking{look: look}}}}
		_, err := h.outlet(t.Context(), platform.SensorMicrophone, arguments{})
		if e := capabilities.AsError(err); e.Code != code || e.PublicHint() == "" {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// A long fix is cut between characters.
func TestLongFix(t *testing.T) {
	got, _ := fixOf(&platform.MissingError{What: "It is missing.", Fix: "a" + strings.Repeat("ü", 200)})
	if want := "a" + strings.Repeat("ü", 149); got != want {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
