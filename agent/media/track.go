package media

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v4"

	"github.com/handrail-dev/handrail/capabilities"
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

// track is what is shown as one viewer gets it: RTP with numbers of its own. Only one
// goroutine sends.
type track struct {
	codec   codec
	out     packetWriter // set once the viewer and we agree
	header  rtp.Header
	delayID uint8
	timeID  uint8
	picture codecs.VP8Payloader
	offset  uint32
	began   time.Time
	primed  bool // it has had a key frame
}

// packetWriter is where they go.
type packetWriter interface {
	WriteRTP(h *rtp.Header, payload []byte) (int, error)
}

var _ webrtc.TrackLocal = (*track)(nil)

func newTrack(c codec) *track {
	return &track{
		codec: c, header: rtp.Header{Version: 2, SequenceNumber: uint16(rand.Uint32())},
		picture: codecs.VP8Payloader{EnablePictureID: true}, offset: rand.Uint32(), began: time.Now(),
	}
}

// Bind takes what the viewer and we agreed on; it is called before the answer.
func (t *track) Bind(c webrtc.TrackLocalContext) (webrtc.RTPCodecParameters, error) {
	agreed := c.CodecParameters()
	if len(agreed) == 0 {
		return webrtc.RTPCodecParameters{}, webrtc.ErrUnsupportedCodec
	}
	t.out, t.header.SSRC, t.header.PayloadType = c.WriteStream(), uint32(c.SSRC()), uint8(agreed[0].PayloadType)
	for _, e := range c.HeaderExtensions() {
		switch e.URI {
		case playoutDelayURI:
			t.delayID = uint8(e.ID)
		case captureTimeURI:
			t.timeID = uint8(e.ID)
		}
	}
	return agreed[0], nil
}

// Unbind has nothing to give back: what is sent after the end is an error.
func (t *track) Unbind(webrtc.TrackLocalContext) error { return nil }

// ID names the track.
func (t *track) ID() string { return trackID }

// RID is empty: there is one encoding.
func (t *track) RID() string { return "" }

// StreamID names the stream that the track is alone in.
func (t *track) StreamID() string { return streamID }

// Kind is video or audio.
func (t *track) Kind() webrtc.RTPCodecType { return webrtc.NewRTPCodecType(t.codec.kind) }

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
	sound := t.codec.kind == "audio"
	if sound {
		h.Timestamp, payloads = t.offset+f.tick, [][]byte{f.data}
	} else {
		payloads = t.picture.Payload(mtu, f.data)
	}
	started, written := time.Now(), 0
	for i, payload := range payloads {
		h.Extension, h.Extensions = false, h.Extensions[:0]
		h.Marker = i == len(payloads)-1 && !sound
		if i == 0 {
			t.extend(h, f)
		}
		if _, err := t.out.WriteRTP(h, payload); err != nil {
			return false, err
		}
		h.SequenceNumber++
		written += len(payload)
		if i%burst == burst-1 {
			ahead := time.Duration(written) * 8 * time.Second / time.Duration(2*rate)
			if err := capabilities.Sleep(ctx, ahead-time.Since(started)); err != nil {
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
