package browser

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// websocket is a client of RFC 6455, as little of it as a Chrome that a person
// runs needs. It looks to conn like Chrome's pipe: messages that end with a zero
// byte, both ways. It is our own because Chrome refuses clients that send an
// Origin, as the usual library does.
//
// A frame, numbers in network order:
//
//	1  final bit, three reserved bits, opcode (0 more, 1 text, 2 binary,
//	   8 close, 9 ping, 10 pong)
//	1  mask bit, length; 126: two more bytes of it, 127: eight
//	4  mask, from a client only
//	n  payload
type websocket struct {
	conn net.Conn
	r    *bufio.Reader

	// of the message being read; the reading goroutine's
	left   uint64 // of the frame
	last   bool   // the frame is the message's last
	within bool
	ended  bool // its zero byte is due

	mu sync.Mutex // one frame at a time
}

// dialWebsocket opens the connection; ctx bounds the handshake only.
func dialWebsocket(ctx context.Context, host, path string) (*websocket, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	w, err := shakeHands(conn, host, path)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return w, nil
}

func shakeHands(conn net.Conn, host, path string) (*websocket, error) {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	key := base64.StdEncoding.EncodeToString(nonce)
	_, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", path, host, key)
	if err != nil {
		return nil, err
	}
	r := bufio.NewReaderSize(conn, 64<<10)
	res, err := http.ReadResponse(r, &http.Request{Method: http.MethodGet})
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Sec-WebSocket-Accept") != acceptKey(key) {
		return nil, fmt.Errorf("websocket: refused with status %d", res.StatusCode)
	}
	return &websocket{conn: conn, r: r}, nil
}

// acceptKey is the server's proof that it speaks the protocol (RFC 6455, 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const (
	opMore  = 0
	opText  = 1
	opBin   = 2
	opClose = 8
	opPing  = 9
	opPong  = 10
)

var errFrame = errors.New("websocket: a frame that a server may not send")

// Read returns messages, each ended by a zero byte.
func (w *websocket) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case w.left > 0:
			n, err := w.r.Read(p[:min(uint64(len(p)), w.left)])
			w.left -= uint64(n)
			if w.left == 0 && w.last {
				w.ended = true
			}
			if n > 0 {
				err = nil // it comes again
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if n > 0 || err != nil {
				return n, err
			}
		case w.ended:
			w.ended, w.within = false, false
			p[0] = 0
			return 1, nil
		default:
			if err := w.next(); err != nil {
				return 0, err
			}
		}
	}
}

// next reads the head of the next frame of a message, and whole control frames.
func (w *websocket) next() error {
	op, last, length, err := readHead(w.r)
	if err != nil {
		return err
	}
	switch op {
	case opClose:
		return io.EOF
	case opPing, opPong:
		payload := make([]byte, length) // at most 125 bytes
		if _, err := io.ReadFull(w.r, payload); err != nil {
			return err
		}
		if op == opPing {
			return w.send(opPong, payload)
		}
		return nil
	}
	if (op == opMore) != w.within {
		return errFrame
	}
	w.left, w.last, w.within = length, last, true
	w.ended = length == 0 && last
	return nil
}

// readHead reads a frame's head as a server sends it.
func readHead(r io.Reader) (op byte, last bool, length uint64, err error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return 0, false, 0, err
	}
	op, last, length = b[0]&15, b[0]&0x80 != 0, uint64(b[1]&0x7f)
	if b[0]&0x70 != 0 || b[1]&0x80 != 0 {
		return 0, false, 0, errFrame
	}
	switch op {
	case opMore, opText, opBin:
	case opClose, opPing, opPong:
		if !last || length > 125 {
			return 0, false, 0, errFrame
		}
	default:
		return 0, false, 0, errFrame
	}
	switch length {
	case 126:
		if _, err := io.ReadFull(r, b[:2]); err != nil {
			return 0, false, 0, noEOF(err)
		}
		length = uint64(binary.BigEndian.Uint16(b[:2]))
	case 127:
		if _, err := io.ReadFull(r, b[:8]); err != nil {
			return 0, false, 0, noEOF(err)
		}
		length = binary.BigEndian.Uint64(b[:8])
	}
	if length > maxMessage {
		return 0, false, 0, errFrame
	}
	return op, last, length, nil
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends whole messages, each ended by a zero byte.
func (w *websocket) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return n, errors.New("websocket: half a message")
		}
		if err := w.send(opText, b[:i]); err != nil {
			return n, err
		}
		n += i + 1
		b = b[i+1:]
	}
	return n, nil
}

func (w *websocket) send(op byte, payload []byte) error {
	f := make([]byte, 0, len(payload)+14)
	f = append(f, 0x80|op)
	switch n := len(payload); {
	case n < 126:
		f = append(f, 0x80|byte(n))
	case n < 1<<16:
		f = binary.BigEndian.AppendUint16(append(f, 0x80|126), uint16(n))
	default:
		f = binary.BigEndian.AppendUint64(append(f, 0x80|127), uint64(n))
	}
	var mask [4]byte
	rand.Read(mask[:])
	f = append(f, mask[:]...)
	for i, c := range payload {
		f = append(f, c^mask[i&3])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.conn.Write(f)
	return err
}
