package sandbox

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// Between this process and the runner, in both directions:
//
//	 0      1               5
//	+------+---------------+------+
//	| kind | length uint32 | data |
//	| u8   | big endian    |      |
//	+------+---------------+------+
const (
	frameData    = 1 // of standard input or output
	frameError   = 2 // of standard error
	frameEnd     = 3 // standard input is over
	frameExit    = 4 // the exit code, int32
	frameWall    = 5 // the walls or the program could not be had: why; before frameStarted only
	frameStarted = 6 // the program runs
	frameOrder   = 7 // a piece of the order
	frameGo      = 8 // the order is whole
)

// maxOrder bounds an order, which holds a command's words.
const maxOrder = 2 << 20

const maxFrame = 64 << 10

type frames struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frames) write(kind byte, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for first := true; first || len(data) > 0; first = false {
		part := data[:min(len(data), maxFrame)]
		head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(part)))
		if _, err := f.w.Write(append(head, part...)); err != nil {
			return err
		}
		data = data[len(part):]
	}
	return nil
}

// readFrame reads one frame into buf, which holds maxFrame bytes.
func readFrame(r io.Reader, buf []byte) (kind byte, data []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, errors.New("a frame that is too long")
	}
	_, err = io.ReadFull(r, buf[:n])
	return head[0], buf[:n], err
}
