package sound

import (
	"encoding/binary"
	"io"
)

// WAV writes samples as a WAV file: 16 bits, rate in Hz, channels interleaved.
//
//	"RIFF" size "WAVE" | "fmt " 16 format channels rate bytes/s align bits | "data" size samples
func WAV(w io.Writer, samples []int16, rate, channels int) error {
	data := 2 * len(samples)
	b := make([]byte, 0, 44)
	b = append(b, "RIFF"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(36+data))
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // PCM
	b = binary.LittleEndian.AppendUint16(b, uint16(channels))
	b = binary.LittleEndian.AppendUint32(b, uint32(rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(2*rate*channels))
	b = binary.LittleEndian.AppendUint16(b, uint16(2*channels))
	b = binary.LittleEndian.AppendUint16(b, 16)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(data))
	if _, err := w.Write(b); err != nil {
		return err
	}
	part := make([]byte, 0, 1<<14)
	for len(samples) > 0 {
		part = part[:0]
		n := min(len(samples), 1<<13)
		for _, s := range samples[:n] {
			part = binary.LittleEndian.AppendUint16(part, uint16(s))
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		samples = samples[n:]
	}
	return nil
}
