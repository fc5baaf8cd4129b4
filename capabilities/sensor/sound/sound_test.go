package sound

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"testing"
)

// A foreign decoder gives back every sample, of every kind of frame.
func TestFLAC(t *testing.T) {
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Fatal("this test needs ffmpeg")
	}
	sine := make([]int16, 3*block+777)
	for i := range sine {
		sine[i] = int16(20000*math.Sin(float64(i)/17) + 50*rand.Float64())
	}
	noise, edges := make([]int16, 2*block), make([]int16, block+1)
	for i := range noise {
		noise[i] = int16(rand.Uint32())
	}
	for i := range edges {
		edges[i] = []int16{-32768, 32767}[i%2]
	}
	long := make([]int16, 140*block) // frame numbers of two bytes
	for i := range long {
		long[i] = int16(i * i >> 8)
	}
	for name, samples := range map[string][]int16{
		"sine": sine, "noise": noise, "edges": edges, "silence": make([]int16, block+5), "one": {7}, "few": {1, -2, 3, -4, 5}, "long": long,
	} {
		for _, rate := range []int{8000, 44100, 48000} {
			var file, raw bytes.Buffer
			if err := FLAC(&file, samples, rate); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(ffmpeg, "-v", "error", "-xerror", "-err_detect", "crccheck+explode", "-f", "flac", "-i", "pipe:0", "-f", "s16le", "pipe:1")
			cmd.Stdin = &file
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s at %d: %v", name, rate, err)
			}
			if err := binary.Write(&raw, binary.LittleEndian, samples); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, raw.Bytes()) {
				t.Errorf("%s at %d: %d bytes, want %d, or other samples", name, rate, len(out), raw.Len())
			}
			if name != "sine" { // one rate with every input is enough
				break
			}
		}
	}
	var small bytes.Buffer
	if err := FLAC(&small, sine, 48000); err != nil || small.Len() > 2*len(sine)*2/3 {
		t.Errorf("%d bytes for %d samples: %v", small.Len(), len(sine), err)
	}
}
