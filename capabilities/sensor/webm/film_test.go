package webm

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities/vp8"
)

// film is one of n frames, 40 ms apart, of a square that walks.
func film(t *testing.T, n int) *Film {
	t.Helper()
	const width, height = 64, 48
	enc, err := vp8.New(width, height)
	if err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, width*height*4)
	var f Film
	for i := range n {
		clear(pix)
		for y := range 16 {
			for x := range 16 {
				copy(pix[((y+16)*width+(i*2+x)%width)*4:], []byte{255, 255, 255})
			}
		}
		out, _, err := enc.Encode(nil, pix, width*4, nil, vp8.Params{Quant: 20, Fine: 10, Key: i%50 == 0})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(time.Duration(i)*40*time.Millisecond, out); err != nil {
			t.Fatal(err)
		}
	}
	return &f
}

func TestFilm(t *testing.T) {
	var f Film
	if err := f.Add(0, []byte{1, 2, 3}); !errors.Is(err, ErrNoKey) {
		t.Errorf("a film that begins with half a picture: %v", err)
	}
	if err := f.Write(&bytes.Buffer{}, 0, nil); !errors.Is(err, ErrNoKey) {
		t.Errorf("an empty film: %v", err)
	}
	var file bytes.Buffer
	chapters := []Chapter{{From: time.Second, To: 2 * time.Second, Title: "tool.desktop.mouse action=click: ok"}, {From: 3 * time.Second, To: time.Hour, Title: "ü: denied"}}
	if err := film(t, 200).Write(&file, 20*time.Second, chapters); err != nil {
		t.Fatal(err)
	}
	info, err := Read(file.Bytes())
	if err != nil || len(info.Tracks) != 1 || info.Tracks[0].Frames != 200 || info.Tracks[0].Codec != "V_VP8" || info.Tracks[0].Width != 64 || info.Tracks[0].Height != 48 {
		t.Fatalf("%+v %v", info, err)
	}
	// Cut anywhere, it is not whole.
	for n := 1; n < file.Len(); n += 997 {
		if _, err := Read(file.Bytes()[:n]); err == nil {
			t.Errorf("%d of %d bytes count as whole", n, file.Len())
		}
	}
	ffprobe, err := exec.LookPath("ffprobe")
	if err != nil {
		t.Skip("there is no ffprobe here")
	}
	cmd := exec.Command(ffprobe, "-v", "error", "-of", "json", "-show_chapters", "-show_format", "-count_frames", "-show_streams", "-")
	cmd.Stdin = &file
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Chapters []struct {
			Start string            `json:"start_time"`
			End   string            `json:"end_time"`
			Tags  map[string]string `json:"tags"`
		} `json:"chapters"`
		Format  struct{ Duration string } `json:"format"`
		Streams []struct {
			Codec  string `json:"codec_name"`
			Frames string `json:"nb_read_frames"`
		} `json:"streams"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format.Duration != "20.000000" || len(got.Streams) != 1 || got.Streams[0].Codec != "vp8" || got.Streams[0].Frames != "200" {
		t.Errorf("%s", out)
	}
	if c := got.Chapters; len(c) != 2 || c[0].Start != "1.000000" || c[0].End != "2.000000" || c[0].Tags["title"] != chapters[0].Title || c[1].End != "20.000000" || c[1].Tags["title"] != "ü: denied" {
		t.Errorf("%s", out)
	}
}
