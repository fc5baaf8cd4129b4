package sandbox

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// Between this process and the runner, in both directions:
//
//	 0      1               5
//	+------+---------------+------+
//	| kind | length uint32 | data |
//	| u8   | big endian    |      |
//	+------+---------------+------+
const (
	frameData    = 1  // of standard input or output
	frameError   = 2  // of standard error
	frameEnd     = 3  // standard input is over
	frameExit    = 4  // the exit code, int32
	frameWall    = 5  // the walls or the program could not be had: why; before frameStarted only
	frameStarted = 6  // the program runs: the walls around it, a JSON list
	frameOrder   = 7  // a piece of the order
	frameGo      = 8  // the order is whole
	frameConnect = 9  // the program is about to be connected to its door, or was refused
	frameSocket  = 10 // the program wanted a socket and was refused: its family, uint16
	frameWrite   = 11 // the program would write outside its folders and is refused: the path
	frameRead    = 13 // the program wants to read a path outside its folders, which may not be there
	frameReady   = 12 // the runner waits for its order: whatever takes no order is done
	frameChange  = 14 // the program changes something in a folder that it may write: the folder
	frameSpawn   = 15 // the program would start another and is refused
	frameOdd     = 16 // the program with a door wanted another kind of socket and was refused: which
	frameTried   = 17 // the program tried something else and was refused: what (tryLookup …), then words
)

// The kinds of frameTried, which are its first byte.
const (
	tryLookup byte = iota
	tryTrace
	trySystem
	tryControl
	tryShared
	tryKeyring
	tryListen
	tryInterface
)

// tryKeys are the capability keys of those.
var tryKeys = [...]string{
	tryLookup: capabilities.KeyLookup, tryTrace: capabilities.KeyTrace, trySystem: capabilities.KeySystem, tryControl: capabilities.KeyControl,
	tryShared: capabilities.KeyShared, tryKeyring: capabilities.KeyKeyring, tryListen: capabilities.KeyListen,
	tryInterface: capabilities.KeyInterface,
}

// maxOrder bounds an order, which holds a command's words.
const maxOrder = 2 << 20

const maxFrame = 64 << 10

// frameConnect says the loopback port that the connection comes from, 0 for one that is not made,
// and what the program wanted to connect to.
//
//	 0             2              6            8
//	+-------------+--------------+------------+
//	| from uint16 | address IPv4 | port       |
//	| big endian  |              | big endian |
//	+-------------+--------------+------------+
const connectSize = 8

func appendConnect(from uint16, to netip.AddrPort) []byte {
	addr := to.Addr().As4()
	data := append(binary.BigEndian.AppendUint16(nil, from), addr[:]...)
	return binary.BigEndian.AppendUint16(data, to.Port())
}

func readConnect(data []byte) (from, to netip.AddrPort, ok bool) {
	if len(data) != connectSize {
		return from, to, false
	}
	from = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), binary.BigEndian.Uint16(data))
	to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(data[2:6])), binary.BigEndian.Uint16(data[6:]))
	return from, to, true
}

// teller is how a keeper tells what a program wanted.
type teller struct{ report *frames }

// connects tells of a connection that is about to be made, or of one that is not (from is 0).
func (t teller) connects(from uint16, to netip.AddrPort) error {
	return t.report.write(frameConnect, appendConnect(from, to))
}

// refused tells of a socket that the program did not get.
func (t teller) refused(family uint16) error {
	return t.report.write(frameSocket, binary.BigEndian.AppendUint16(nil, family))
}

// wrote tells of a path that the program may not write.
func (t teller) wrote(path string) error { return t.report.write(frameWrite, []byte(path)) }

// spawns tells of another process or program that is not started.
func (t teller) spawns() error { return t.report.write(frameSpawn, nil) }

// odd tells of a socket that no door is for.
func (t teller) odd(socket string) error { return t.report.write(frameOdd, []byte(socket)) }

// tried tells of something else that the program did not get, in a few words.
func (t teller) tried(what byte, words string) error {
	return t.report.write(frameTried, append([]byte{what}, words...))
}

// changes tells of a folder in which the program changes something.
func (t teller) changes(folder string) error { return t.report.write(frameChange, []byte(folder)) }

// wants tells of a path that the program may not read.
func (t teller) wants(path string) error { return t.report.write(frameRead, []byte(path)) }

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
