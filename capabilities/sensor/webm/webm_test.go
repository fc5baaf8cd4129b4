package webm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"
)

// live is a recording as Chrome makes it: segment and clusters of no told size.
func live() []byte {
	noSize := func(b []byte, id uint32) []byte {
		return append(appendID(b, id), 0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF)
	}
	block := func(track byte, at int16, key bool) []byte {
		b := binary.BigEndian.AppendUint16([]byte{0x80 | track}, uint16(at))
		flags := byte(0)
		if key {
			flags = 0x80
		}
		return append(b, flags, 1, 2, 3)
	}
	b := appendBytes(nil, idHeader, appendBytes(nil, 0x4282, []byte("webm")))
	b = noSize(b, idSegment)
	b = appendBytes(b, idInfo, appendUint(nil, idScale, 1e6))
	video := appendBytes(appendUint(appendUint(nil, idNumber, 1), idType, 1), idCodec, []byte("V_VP8"))
	video = appendBytes(video, idVideo, appendUint(appendUint(nil, idWidth, 320), idHeight, 240))
	audio := appendBytes(appendUint(appendUint(nil, idNumber, 2), idType, 2), idCodec, []byte("A_OPUS"))
	audio = appendBytes(audio, idAudio, appendUint(appendFloat(nil, idRate, 48000), idChannels, 1))
	b = appendBytes(b, idTracks, appendBytes(appendBytes(nil, idEntry, video), idEntry, audio))
	b = appendUint(noSize(b, idCluster), idTime, 0)
	b = appendBytes(b, idSimple, block(1, 0, true))
	b = appendBytes(b, idSimple, block(2, 0, true))
	b = appendBytes(b, idSimple, block(1, 40, false))
	b = appendUint(noSize(b, idCluster), idTime, 1000)
	b = appendBytes(b, idGroup, appendBytes(nil, idBlock, block(1, -5, true)))
	b = appendBytes(b, idSimple, block(2, 20, true))
	return b
}

func TestFinish(t *testing.T) {
	var file bytes.Buffer
	info, err := Finish(&file, live())
	if err != nil {
		t.Fatal(err)
	}
	if info.Duration != 1120*time.Millisecond || len(info.Tracks) != 2 {
		t.Errorf("%+v", info)
	}
	video, audio := info.Tracks[0], info.Tracks[1]
	if video.Codec != "V_VP8" || !video.Video || video.Width != 320 || video.Height != 240 || video.Frames != 3 || video.End != 1095*time.Millisecond {
		t.Errorf("%+v", video)
	}
	if audio.Codec != "A_OPUS" || audio.Video || audio.Rate != 48000 || audio.Channels != 1 || audio.Frames != 2 {
		t.Errorf("%+v", audio)
	}
	// Every byte of the file is accounted for, and both clusters are in the index.
	whole := file.Bytes()
	segment, err := at(whole, bytes.Index(whole, appendID(nil, idSegment)), len(whole))
	if err != nil || segment.body+segment.size != len(whole) {
		t.Fatal(segment, len(whole), err)
	}
	cues := 0
	err = each(whole, segment.body, len(whole), func(e element) error {
		if e.id != idCues {
			return nil
		}
		return each(whole, e.body, e.body+e.size, func(cue element) error {
			return each(whole, cue.body, cue.body+cue.size, func(e element) error {
				if e.id != idCueAt {
					return nil
				}
				return each(whole, e.body, e.body+e.size, func(e element) error {
					if e.id == idCuePos {
						cues++
						if c, err := at(whole, segment.body+int(e.uint(whole)), len(whole)); err != nil || c.id != idCluster {
							t.Errorf("the index leads to %X: %v", c.id, err)
						}
					}
					return nil
				})
			})
		})
	})
	if err != nil || cues != 2 {
		t.Error(cues, err)
	}
}

func TestBroken(t *testing.T) {
	b := live()
	for n := range b {
		info, err := Read(b[:n])
		if err == nil && info.Duration >= 1120*time.Millisecond {
			t.Errorf("cut at %d of %d it is still whole", n, len(b))
		}
		if err != nil && !errors.Is(err, ErrBroken) {
			t.Error(err)
		}
	}
}

// A file that is read can be finished, and a finished one is read as the same.
func FuzzFinish(f *testing.F) {
	f.Add(live())
	if b, err := os.ReadFile("testdata/chrome.webm"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var file bytes.Buffer
		info, err := Finish(&file, b)
		if err != nil {
			if file.Len() > 0 {
				t.Fatal("bytes beside an error")
			}
			return
		}
		again, err := Read(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if again.Duration != info.Duration || len(again.Tracks) != len(info.Tracks) {
			t.Fatalf("%+v, then %+v", info, again)
		}
		for i := range info.Tracks {
			if a, b := info.Tracks[i], again.Tracks[i]; a.Frames != b.Frames || a.End != b.End || a.Codec != b.Codec {
				t.Fatalf("%+v, then %+v", a, b)
			}
		}
	})
}
