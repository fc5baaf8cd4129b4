package win32

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/handrail-dev/handrail/platform"
)

// The flags of SendInput.
const (
	inputMouse, inputKeyboard = 0, 1

	mouseMove, mouseAbsolute, mouseVirtualDesk = 0x0001, 0x8000, 0x4000
	mouseWheel, mouseHWheel                    = 0x0800, 0x1000
	keyExtended, keyUp, keyUnicode             = 0x0001, 0x0002, 0x0004

	wheelClick = 120
)

// mouseInput and keyInput are INPUT with each of its unions, as 64-bit systems
// lay it out.
type mouseInput struct {
	kind, _        uint32
	dx, dy         int32
	data           uint32
	flags, time, _ uint32
	extra          uintptr
}

type keyInput struct {
	kind, _     uint32
	vk, scan    uint16
	flags, time uint32
	_           uint32
	extra       uintptr
	_           [8]byte
}

// Input makes events by SendInput. It implements platform.Input.
type Input struct {
	mu      sync.Mutex
	keys    map[string]key
	buttons map[platform.Button]bool
}

// NewInput returns an Input that holds nothing.
func NewInput() *Input {
	return &Input{keys: map[string]key{}, buttons: map[platform.Button]bool{}}
}

// refused is what SendInput's silence means: a window with more rights is in
// front (UIPI), or the desktop is not the person's.
func refused() error {
	if why := Locked(); why != "" {
		return &platform.MissingError{What: why, Fix: "Unlock it, or answer the prompt."}
	}
	return &platform.MissingError{
		What: "Windows refused the event: the window in front runs with higher rights than the node.",
		Fix:  "Run that application without elevation.",
	}
}

func send(first unsafe.Pointer, n int) (int, error) {
	if n == 0 {
		return 0, nil
	}
	done, _, _ := procSendInput.Call(uintptr(n), uintptr(first), unsafe.Sizeof(mouseInput{}))
	if int(done) < n {
		return int(done), refused()
	}
	return n, nil
}

func sendMouse(in mouseInput) error {
	in.kind = inputMouse
	_, err := send(unsafe.Pointer(&in), 1)
	return err
}

func sendKeys(in []keyInput) (int, error) {
	for i := range in {
		in[i].kind = inputKeyboard
	}
	return send(unsafe.Pointer(unsafe.SliceData(in)), len(in))
}

// Pointer returns where the pointer is.
func (in *Input) Pointer(ctx context.Context) (platform.Point, error) {
	if err := ctx.Err(); err != nil {
		return platform.Point{}, err
	}
	var p point
	if ok, _, errno := procGetCursorPos.Call(uintptr(unsafe.Pointer(&p))); ok == 0 {
		return platform.Point{}, failed("GetCursorPos", errno)
	}
	return platform.Point{X: int(p.x), Y: int(p.y)}, nil
}

func metric(n uintptr) int {
	v, _, _ := procGetSystemMetrics.Call(n)
	return int(int32(v))
}

// Move moves the pointer, with the events that a mouse would make.
func (in *Input) Move(ctx context.Context, to platform.Point) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	const xVirtual, yVirtual, cxVirtual, cyVirtual = 76, 77, 78, 79
	whole := platform.Rect{X: metric(xVirtual), Y: metric(yVirtual), Width: metric(cxVirtual), Height: metric(cyVirtual)}
	if whole.Empty() {
		return failed("GetSystemMetrics", nil)
	}
	movedTo(point{int32(to.X), int32(to.Y)})
	// The middle of the pixel in a range of 65,536, so that rounding finds it back.
	norm := func(v, origin, size int) int32 { return int32(((v-origin)*2 + 1) * 65536 / (size * 2)) }
	err := sendMouse(mouseInput{
		dx: norm(to.X, whole.X, whole.Width), dy: norm(to.Y, whole.Y, whole.Height), flags: mouseMove | mouseAbsolute | mouseVirtualDesk,
	})
	if err != nil {
		return err
	}
	// The event may be taken a moment later; a pointer that is a pixel beside is put right.
	if now, err := in.Pointer(ctx); err == nil && now != to {
		procSetCursorPos.Call(uintptr(to.X), uintptr(to.Y))
	}
	return nil
}

type buttonEvent struct{ down, up, data uint32 }

var buttonEvents = map[platform.Button]buttonEvent{
	platform.ButtonLeft: {0x0002, 0x0004, 0}, platform.ButtonRight: {0x0008, 0x0010, 0}, platform.ButtonMiddle: {0x0020, 0x0040, 0},
	platform.ButtonBack: {0x0080, 0x0100, 1}, platform.ButtonForward: {0x0080, 0x0100, 2},
}

// Button presses or releases a button.
func (in *Input) Button(ctx context.Context, b platform.Button, down bool) error {
	e, ok := buttonEvents[b]
	if !ok {
		return fmt.Errorf("win32: no such button: %w", platform.ErrCannot)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	flags := e.up
	if down {
		flags = e.down
	}
	if err := sendMouse(mouseInput{flags: flags, data: e.data}); err != nil {
		return err
	}
	if down {
		in.buttons[b] = true
	} else {
		delete(in.buttons, b)
	}
	return nil
}

// Scroll turns the wheel.
func (in *Input) Scroll(ctx context.Context, right, down int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if down != 0 {
		if err := sendMouse(mouseInput{flags: mouseWheel, data: uint32(int32(-down * wheelClick))}); err != nil {
			return err
		}
	}
	if right != 0 {
		return sendMouse(mouseInput{flags: mouseHWheel, data: uint32(int32(right * wheelClick))})
	}
	return nil
}

func (k key) event(up bool) keyInput {
	e := keyInput{vk: k.vk}
	if k.extended {
		e.flags |= keyExtended
	}
	if up {
		e.flags |= keyUp
	}
	return e
}

// Key presses or releases a key.
func (in *Input) Key(ctx context.Context, name string, down bool) error {
	k, ok := keyOf(name)
	if !ok {
		return fmt.Errorf("win32: no such key: %w", platform.ErrUntypable)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, err := sendKeys([]keyInput{k.event(!down)}); err != nil {
		return err
	}
	if down {
		in.keys[name] = k
	} else {
		delete(in.keys, name)
	}
	return nil
}

// Type types text as characters, whatever the keyboard's layout. It fails before the
// first one for text that cannot be typed.
func (in *Input) Type(ctx context.Context, text string) (int, error) {
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("the text is not valid UTF-8: %w", platform.ErrUntypable)
	}
	for i, r := range []rune(text) {
		if !typable(r) {
			return 0, fmt.Errorf("character %d of the text is a control character: %w", i+1, platform.ErrUntypable)
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	const chunk = 32 // characters in one call: a cancelled call stops soon
	typed := 0
	var events []keyInput
	var ends []int // events after each character
	flush := func() error {
		n, err := sendKeys(events)
		for _, end := range ends {
			if end <= n {
				typed++
			}
		}
		events, ends = events[:0], ends[:0]
		return err
	}
	for _, r := range text {
		switch r {
		case '\n', '\t':
			k := named["enter"]
			if r == '\t' {
				k = named["tab"]
			}
			events = append(events, k.event(false), k.event(true))
		case '\r':
		default:
			for _, u := range utf16.AppendRune(nil, r) {
				events = append(events, keyInput{scan: u, flags: keyUnicode}, keyInput{scan: u, flags: keyUnicode | keyUp})
			}
		}
		if ends = append(ends, len(events)); len(ends) < chunk {
			continue
		}
		if err := flush(); err != nil {
			return typed, err
		}
		if err := ctx.Err(); err != nil {
			return typed, err
		}
	}
	return typed, flush()
}

// typable reports whether a character is one that a keyboard gives a program as
// text: Enter and Tab are, other controls and what is no character are not.
func typable(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\r':
		return true
	case r < 0x20 || r >= 0x7F && r < 0xA0:
		return false
	}
	return r&0xFFFE != 0xFFFE // the last two of each plane are no characters
}

// Release lets go of what is held.
func (in *Input) Release(context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	var first error
	for name, k := range in.keys {
		if _, err := sendKeys([]keyInput{k.event(true)}); err != nil && first == nil {
			first = err
		}
		delete(in.keys, name)
	}
	for b := range in.buttons {
		e := buttonEvents[b]
		if err := sendMouse(mouseInput{flags: e.up, data: e.data}); err != nil && first == nil {
			first = err
		}
		delete(in.buttons, b)
	}
	return first
}
