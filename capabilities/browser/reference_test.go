package browser

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// What chromedp's transports and keys took the place of, for one commit: what fuzzing holds
// them against.

// messages takes the stream apart. Nearly all messages fit into the buffer; one that
// does not, an image or a body, is read into room of its own, as large as the last
// such message from the start, for images mostly come in rows.
type messages struct {
	r          io.Reader
	buf        [64 << 10]byte
	start, end int // what of buf is not given yet
	last       int // length of the last message that did not fit
}

// keptRoom bounds the room that is made because of the last message alone.
const keptRoom = 8 << 20

// next returns the message up to the zero byte, which it drops. The bytes are the
// caller's. It fails as the reader does, also within a message.
func (m *messages) next() ([]byte, error) {
	for seen := m.start; ; {
		if n := bytes.IndexByte(m.buf[seen:m.end], 0); n >= 0 {
			b := bytes.Clone(m.buf[m.start : seen+n])
			m.start = seen + n + 1
			return b, nil
		}
		m.end = copy(m.buf[:], m.buf[m.start:m.end])
		m.start, seen = 0, m.end
		if m.end == len(m.buf) {
			return m.large()
		}
		n, err := m.r.Read(m.buf[m.end:])
		if m.end += n; n == 0 && err != nil {
			return nil, err
		}
	}
}

// large goes on with a message whose beginning fills the buffer.
func (m *messages) large() ([]byte, error) {
	whole := append(make([]byte, 0, max(4*len(m.buf), min(m.last+1, keptRoom))), m.buf[:]...)
	m.end = 0
	for {
		if len(whole) == cap(whole) {
			whole = slices.Grow(whole, len(whole))
		}
		part := whole[len(whole):min(cap(whole), len(whole)+len(m.buf))] // what follows the message has to fit into buf
		n, err := m.r.Read(part)
		at := bytes.IndexByte(part[:n], 0)
		if at >= 0 {
			m.end = copy(m.buf[:], part[at+1:n])
			n = at
		}
		whole = whole[:len(whole)+n]
		switch {
		case len(whole) > maxMessage:
			return nil, fmt.Errorf("the browser sent a message larger than %d bytes", maxMessage)
		case at >= 0:
			m.last = len(whole)
			return whole, nil
		case n == 0 && err != nil:
			return nil, err
		}
	}
}

// message is the envelope of one protocol message; the parts stay raw.
//
//	answer: {"id":1,"result":{…},"sessionId":"…"}  or  {"id":1,"error":{…}}
//	event:  {"method":"Page.loadEventFired","params":{…},"sessionId":"…"}
type message struct {
	id      int64
	method  string
	session string
	result  []byte // of an answer, or the params of an event
	fault   []byte // the error object of an answer
}

// scanMessage reads an envelope without looking into its parts: a screenshot is
// megabytes of base64 in one string, which a general decoder would walk several
// times. The parts alias b.
func scanMessage(b []byte) (m message, err error) {
	err = scanObject(b, func(key string, value []byte) error {
		switch key {
		case "id":
			m.id, err = strconv.ParseInt(string(value), 10, 64)
			return err
		case "method":
			m.method, err = plainString(value)
			return err
		case "sessionId":
			m.session, err = plainString(value)
			return err
		case "result", "params":
			m.result = value
		case "error":
			m.fault = value
		}
		return nil
	})
	if err == nil && m.id == 0 && m.method == "" {
		err = errMessage
	}
	if err != nil {
		return message{}, err
	}
	return m, nil
}

// plainString reads a string without escapes; identifiers of the protocol have
// none.
func plainString(value []byte) (string, error) {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return "", errMessage
	}
	return string(value[1 : len(value)-1]), nil
}

// scanObject calls f with each key of the JSON object b and its raw value.
func scanObject(b []byte, f func(key string, value []byte) error) error {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return errMessage
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return tail(b, i+1)
	}
	for {
		start := skipSpace(b, i)
		end, err := skipString(b, start)
		if err != nil {
			return err
		}
		key := b[start+1 : end-1]
		if i = skipSpace(b, end); i >= len(b) || b[i] != ':' {
			return errMessage
		}
		start = skipSpace(b, i+1)
		if end, err = skipValue(b, start); err != nil {
			return err
		}
		if err := f(string(key), b[start:end]); err != nil {
			return err
		}
		if i = skipSpace(b, end); i >= len(b) {
			return errMessage
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return tail(b, i+1)
		default:
			return errMessage
		}
	}
}

func tail(b []byte, i int) error {
	if skipSpace(b, i) != len(b) {
		return errMessage
	}
	return nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i.
func skipString(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '"' {
		return 0, errMessage
	}
	for i++; ; {
		quote := bytes.IndexByte(b[i:], '"')
		if quote < 0 {
			return 0, errMessage
		}
		escape := bytes.IndexByte(b[i:i+quote], '\\')
		if escape < 0 {
			return i + quote + 1, nil
		}
		if i += escape + 2; i > len(b) {
			return 0, errMessage
		}
	}
}

// skipValue returns the index after the value that starts at i. Brackets are
// counted, not matched: what is inside is decoded, strictly, where it is used.
func skipValue(b []byte, i int) (int, error) {
	if i >= len(b) {
		return 0, errMessage
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; i < len(b); {
			switch b[i] {
			case '"':
				end, err := skipString(b, i)
				if err != nil {
					return 0, err
				}
				i = end
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			i++
			if depth == 0 {
				return i, nil
			}
		}
		return 0, errMessage
	}
	start := i
	for i < len(b) && bytes.IndexByte([]byte(",}] \t\r\n"), b[i]) < 0 {
		i++
	}
	if i == start {
		return 0, errMessage
	}
	return i, nil
}

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

// oldNamedKeys are the keys that are called by a name, by the names of the UI Events
// specification.
var oldNamedKeys = func() map[string]key {
	all := map[string]key{}
	add := func(k key) {
		all[k.name] = k
	}
	for _, k := range []key{
		{name: "Enter", code: "Enter", virtual: 13, text: "\r"}, {name: "Tab", code: "Tab", virtual: 9},
		{name: "Escape", code: "Escape", virtual: 27}, {name: "Backspace", code: "Backspace", virtual: 8},
		{name: "Delete", code: "Delete", virtual: 46}, {name: "Insert", code: "Insert", virtual: 45},
		{name: "Home", code: "Home", virtual: 36}, {name: "End", code: "End", virtual: 35},
		{name: "PageUp", code: "PageUp", virtual: 33}, {name: "PageDown", code: "PageDown", virtual: 34},
		{name: "ArrowLeft", code: "ArrowLeft", virtual: 37}, {name: "ArrowUp", code: "ArrowUp", virtual: 38},
		{name: "ArrowRight", code: "ArrowRight", virtual: 39}, {name: "ArrowDown", code: "ArrowDown", virtual: 40},
		{name: "CapsLock", code: "CapsLock", virtual: 20}, {name: "NumLock", code: "NumLock", virtual: 144},
		{name: "ScrollLock", code: "ScrollLock", virtual: 145}, {name: "Pause", code: "Pause", virtual: 19},
		{name: "PrintScreen", code: "PrintScreen", virtual: 44}, {name: "ContextMenu", code: "ContextMenu", virtual: 93},
		{name: "Help", code: "Help", virtual: 47}, {name: "Clear", code: "NumpadClear", virtual: 12},
		{name: "AltGraph", code: "AltRight", virtual: 18, location: 2},
		{name: "BrowserBack", code: "BrowserBack", virtual: 166}, {name: "BrowserForward", code: "BrowserForward", virtual: 167},
		{name: "BrowserRefresh", code: "BrowserRefresh", virtual: 168}, {name: "BrowserSearch", code: "BrowserSearch", virtual: 170},
		{name: "AudioVolumeMute", code: "AudioVolumeMute", virtual: 173}, {name: "AudioVolumeDown", code: "AudioVolumeDown", virtual: 174},
		{name: "AudioVolumeUp", code: "AudioVolumeUp", virtual: 175}, {name: "MediaTrackNext", code: "MediaTrackNext", virtual: 176},
		{name: "MediaTrackPrevious", code: "MediaTrackPrevious", virtual: 177}, {name: "MediaStop", code: "MediaStop", virtual: 178},
		{name: "MediaPlayPause", code: "MediaPlayPause", virtual: 179},
	} {
		add(k)
	}
	for i := range int64(24) {
		name := "F" + itoa(i+1)
		add(key{name: name, code: name, virtual: 112 + i})
	}
	for _, m := range modifierKeys {
		add(m.key)
	}
	return all
}()

// oldOtherNames are what callers also say, in lower case. Codes of the keypad and of
// the right-hand keys are here too: they are names for a place on the keyboard.
var oldOtherNames = func() map[string]key {
	all := map[string]key{}
	for name, k := range oldNamedKeys {
		all[strings.ToLower(name)] = k
	}
	for other, name := range map[string]string{
		"esc": "Escape", "del": "Delete", "ins": "Insert", "return": "Enter", "pgup": "PageUp", "pgdn": "PageDown", "pagedn": "PageDown",
		"left": "ArrowLeft", "up": "ArrowUp", "right": "ArrowRight", "down": "ArrowDown", "ctrl": "Control", "cmd": "Meta",
		"command": "Meta", "super": "Meta", "win": "Meta", "windows": "Meta", "option": "Alt", "opt": "Alt", "menu": "ContextMenu",
		"altleft": "Alt", "controlleft": "Control", "metaleft": "Meta", "shiftleft": "Shift", "altgr": "AltGraph",
	} {
		all[other] = oldNamedKeys[name]
	}
	for _, name := range modifierOrder {
		k := modifierKeys[name].key
		k.code, k.location = name+"Right", 2
		if name == "Meta" {
			k.virtual = 92
		}
		all[strings.ToLower(name)+"right"] = k
	}
	all["space"], _ = oldKeyOf(' ')
	all["spacebar"] = all["space"]
	all["plus"], _ = oldKeyOf('+')
	for _, p := range oldPunctuation {
		all[strings.ToLower(p.code)], _ = oldKeyOf(p.plain)
	}
	for r := 'a'; r <= 'z'; r++ {
		all["key"+string(r)], _ = oldKeyOf(r)
	}
	for i := range int64(10) {
		all["numpad"+itoa(i)] = key{name: itoa(i), code: "Numpad" + itoa(i), virtual: 96 + i, text: itoa(i), location: 3}
	}
	for _, k := range []key{
		{name: "*", code: "NumpadMultiply", virtual: 106, text: "*"}, {name: "+", code: "NumpadAdd", virtual: 107, text: "+"},
		{name: "-", code: "NumpadSubtract", virtual: 109, text: "-"}, {name: ".", code: "NumpadDecimal", virtual: 110, text: "."},
		{name: "/", code: "NumpadDivide", virtual: 111, text: "/"}, {name: "Enter", code: "NumpadEnter", virtual: 13, text: "\r"},
	} {
		k.location = 3
		all[strings.ToLower(k.code)] = k
	}
	return all
}()

func itoa(n int64) string {
	if n >= 10 {
		return string(rune('0'+n/10)) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// oldPunctuation gives the US keyboard's key and Shift for what is no letter or
// digit: code, virtual key code, plain and shifted character.
var oldPunctuation = []struct {
	code         string
	virtual      int64
	plain, shift rune
}{
	{"Space", 32, ' ', 0}, {"Minus", 189, '-', '_'}, {"Equal", 187, '=', '+'}, {"BracketLeft", 219, '[', '{'},
	{"BracketRight", 221, ']', '}'}, {"Backslash", 220, '\\', '|'}, {"Semicolon", 186, ';', ':'}, {"Quote", 222, '\'', '"'},
	{"Backquote", 192, '`', '~'}, {"Comma", 188, ',', '<'}, {"Period", 190, '.', '>'}, {"Slash", 191, '/', '?'},
	{"Digit0", 48, '0', ')'}, {"Digit1", 49, '1', '!'}, {"Digit2", 50, '2', '@'}, {"Digit3", 51, '3', '#'}, {"Digit4", 52, '4', '$'},
	{"Digit5", 53, '5', '%'}, {"Digit6", 54, '6', '^'}, {"Digit7", 55, '7', '&'}, {"Digit8", 56, '8', '*'}, {"Digit9", 57, '9', '('},
}

// oldKeyOf returns the key that types r on a US keyboard.
func oldKeyOf(r rune) (key, bool) {
	s := string(r)
	switch {
	case r >= 'a' && r <= 'z':
		return key{name: s, code: "Key" + strings.ToUpper(s), virtual: int64(r - 'a' + 'A'), text: s}, true
	case r >= 'A' && r <= 'Z':
		return key{name: s, code: "Key" + s, virtual: int64(r), text: s, shift: true}, true
	}
	for _, p := range oldPunctuation {
		if r != 0 && (r == p.plain || r == p.shift) {
			return key{name: s, code: p.code, virtual: p.virtual, text: s, shift: r == p.shift}, true
		}
	}
	return key{}, false
}
