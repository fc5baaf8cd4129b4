package media

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pion/interceptor"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
)

const (
	clockRate = 90000
	mtu       = 1180 // of a payload: what every way carries, with headers and encryption
	burst     = 24   // packets that leave at once
)

// frame is one encoded picture, shared by all viewers.
type frame struct {
	data []byte
	at   time.Time // when the screen showed it
	key  bool
	idle bool // nothing is different: a decoder that never gets it shows the same
	// looked is when that was asked: what was painted before is in it.
	looked time.Time
	tick   uint32 // of sound: which sample is its first; then at does not count
}

// The name of the video. It is in a stream of its own: with sound in the same, players hold it
// back.
const (
	streamID = "handrail-screen"
	trackID  = "screen"
)

// track is the video as one viewer gets it: RTP with numbers of its own. Only one
// goroutine sends.
type track struct {
	out     interceptor.RTPWriter
	header  rtp.Header
	delayID uint8
	timeID  uint8
	sound   bool
	picture codecs.VP8Payloader
	offset  uint32
	began   time.Time
	primed  bool // it has had a key frame
}

func newTrack(out interceptor.RTPWriter, ssrc uint32, o *offer) *track {
	return &track{
		out: out, header: rtp.Header{Version: 2, PayloadType: o.payload, SSRC: ssrc, SequenceNumber: uint16(rand.Uint32())},
		sound:   o.codec.kind == "audio",
		delayID: o.extensions[playoutDelayURI], timeID: o.extensions[captureTimeURI],
		picture: codecs.VP8Payloader{EnablePictureID: true}, offset: rand.Uint32(), began: time.Now(),
	}
}

var errNoMore = errors.New("media: the viewer is gone")

// send writes a frame, not faster than about twice what the way carries. It reports
// false for a frame that the viewer cannot use, having none before it.
func (t *track) send(ctx context.Context, f *frame, rate int) (sent bool, err error) {
	h := &t.header
	if !f.key && !t.primed {
		return false, nil
	}
	t.primed = true
	h.Timestamp = t.offset + uint32(f.at.Sub(t.began)*clockRate/time.Second)
	var payloads [][]byte
	if t.sound {
		h.Timestamp, payloads = t.offset+f.tick, [][]byte{f.data}
	} else {
		payloads = t.picture.Payload(mtu, f.data)
	}
	started, written := time.Now(), 0
	for i, payload := range payloads {
		h.Extension, h.Extensions = false, h.Extensions[:0]
		h.Marker = i == len(payloads)-1 && !t.sound
		if i == 0 {
			t.extend(h, f)
		}
		if _, err := t.out.Write(h, payload, interceptor.Attributes{}); err != nil {
			return false, err
		}
		h.SequenceNumber++
		written += len(payload)
		if i%burst == burst-1 {
			ahead := time.Duration(written) * 8 * time.Second / time.Duration(2*rate)
			if err := pause(ctx, ahead-time.Since(started)); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// extend says that the player should not wait, and when the screen showed this.
func (t *track) extend(h *rtp.Header, f *frame) {
	if t.delayID != 0 {
		// A minimum of 0 with a maximum above it is what makes Chromium show frames as
		// they come; the units are 10 ms.
		if b, err := (rtp.PlayoutDelayExtension{MinDelay: 0, MaxDelay: 10}).Marshal(); err == nil {
			_ = h.SetExtension(t.delayID, b)
		}
	}
	if t.timeID != 0 {
		if b, err := rtp.NewAbsCaptureTimeExtension(f.at).Marshal(); err == nil {
			_ = h.SetExtension(t.timeID, b)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
