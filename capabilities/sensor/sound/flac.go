package sound

import (
	"bufio"
	"crypto/md5"
	"encoding/binary"
	"io"
	"slices"

	"github.com/mewkiz/flac"
	"github.com/mewkiz/flac/frame"
	"github.com/mewkiz/flac/meta"
)

// block is how many samples a frame holds.
const block = 4096

// FLAC writes samples of one channel as a FLAC file (RFC 9639): 16 bits, rate in Hz, at
// most 65,535. Every frame is predicted from its own samples only and so can be decoded
// by itself.
func FLAC(w io.Writer, samples []int16, rate int) error {
	out := bufio.NewWriter(w) // the encoder writes a few bytes at a time
	enc, err := flac.NewEncoder(out, &meta.StreamInfo{
		BlockSizeMin: block, BlockSizeMax: block, SampleRate: uint32(rate), NChannels: 1, BitsPerSample: 16,
		NSamples: uint64(len(samples)), MD5sum: digest(samples), // known before the end, so nothing seeks back
	})
	if err != nil {
		return err
	}
	for part := range slices.Chunk(samples, block) {
		wide := make([]int32, len(part))
		for i, s := range part {
			wide[i] = int32(s)
		}
		err := enc.WriteFrame(&frame.Frame{
			Header: frame.Header{
				HasFixedBlockSize: true, BlockSize: uint16(len(part)), SampleRate: uint32(rate), Channels: frame.ChannelsMono, BitsPerSample: 16,
			},
			// The encoder tries the predictors of what is marked as verbatim.
			Subframes: []*frame.Subframe{{SubHeader: frame.SubHeader{Pred: frame.PredVerbatim}, Samples: wide, NSamples: len(wide)}},
		})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// digest is the format's own checksum, of the samples as they were.
func digest(samples []int16) (sum [md5.Size]byte) {
	h := md5.New() //nolint:gosec // the format's
	raw := make([]byte, 0, 2*block)
	for part := range slices.Chunk(samples, block) {
		raw = raw[:0]
		for _, s := range part {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(s))
		}
		h.Write(raw)
	}
	return [md5.Size]byte(h.Sum(nil))
}
