package tunnel

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// Packets that were written are all that is read of any stream; the rest is refused.
func FuzzPackets(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0})
	f.Add([]byte{0, 1, 7, 0, 0})
	f.Add([]byte{0xff, 0xff, 1})
	f.Add([]byte{0, 3, 1, 2})
	f.Add(append([]byte{5, 0xac}, make([]byte, MaxPacket)...))
	f.Add(append([]byte{5, 0xad}, make([]byte, MaxPacket+1)...))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := bytes.NewReader(stream)
		var again []byte
		for {
			var p [MaxPacket]byte
			before := len(stream) - r.Len()
			n, err := readPacket(r, &p)
			if err != nil {
				if n != 0 {
					t.Fatalf("%d bytes beside %v", n, err)
				}
				rest := stream[before:]
				switch {
				case errors.Is(err, io.EOF):
					if len(rest) > 0 && !bytes.HasPrefix(rest, end) {
						t.Fatalf("an end where %x is left", rest)
					}
				case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrPacket):
					if len(rest) == 0 || bytes.HasPrefix(rest, end) {
						t.Fatalf("%v at the end", err)
					}
				default:
					t.Fatal(err)
				}
				break
			}
			again = appendPacket(again, p[:n])
			if !bytes.HasPrefix(stream, again) {
				t.Fatal("another packet was read than was written")
			}
		}
	})
}
