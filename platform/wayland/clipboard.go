//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// Clipboard is the selection of the seat, for text, by data-control: the protocol
// of clipboard managers, which needs no window with the focus. The compositor keeps
// no text itself: who copies serves who pastes, through a pipe for each. Our own, since
// golang.design/x/clipboard (v0.9.0) reads such a pipe to its end without a context or a
// bound, under one lock: a program that never closes it stops every later call.
type Clipboard struct {
	c       *Conn
	manager *object
	device  *object
	version uint32

	mu      sync.Mutex // above what follows
	offers  map[uint32]*offer
	now     *offer  // what the clipboard holds; nil: nothing
	ours    *source // what Write put there; nil: nothing, or it was cleared
	timer   *time.Timer
	serving sync.WaitGroup
}

var _ platform.Clipboard = (*Clipboard)(nil)

// offer is what somebody copied.
type offer struct {
	object *object
	types  []string
}

// source is what this program copied.
type source struct {
	object    *object
	text      string
	taken     bool // somebody else copied since; guarded by Clipboard.mu
	concealed bool
}

// Bounds of the clipboard: what is written and read at most, and how long a
// program may take to give or take its text.
const (
	maxClipboardChars = 32768
	maxClipboardBytes = 4 << 20
	clipboardStep     = 10 * time.Second
	maxTypes          = 200
)

// textTypes are what text is offered as, and asked for, the first one first.
var textTypes = []string{"text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING", "TEXT"}

// hintType tells clipboard histories to leave alone what is offered with it.
const hintType = "x-kde-passwordManagerHint"

// NewClipboard prepares c for it. An error is a *platform.MissingError that names the
// protocol, or that of ctx.
func NewClipboard(ctx context.Context, c *Conn) (*Clipboard, error) {
	cb := &Clipboard{c: c, offers: map[uint32]*offer{}}
	if err := cb.open(ctx); err != nil {
		return nil, err
	}
	return cb, nil
}

func (cb *Clipboard) open(ctx context.Context) error {
	c := cb.c
	kind := extDataControl
	if c.Offers(kind.name) == 0 {
		kind = wlrDataControl
	}
	if c.Offers(kind.name) == 0 || c.Offers(wlSeat.name) == 0 {
		return missing("lets a program read and set the clipboard", wlrDataControl.name, extDataControl.name)
	}
	seat, err := c.bindOne(wlSeat, nil)
	if err != nil {
		return err
	}
	if cb.manager, err = c.bindOne(kind, nil); err != nil {
		return err
	}
	cb.version = cb.manager.version
	if cb.device, err = c.create(cb.manager.id, dataGetDevice, dataDevice, cb.version, cb.heard, seat.id); err != nil {
		return err
	}
	return c.Sync(ctx)
}

// heard handles the device's events.
func (cb *Clipboard) heard(m *message) {
	switch m.opcode {
	case deviceOffer:
		of := &offer{}
		of.object = cb.c.adopt(m.uint(), dataOffer, cb.version, func(m *message) {
			if m.opcode == offerType {
				t := m.string()
				cb.mu.Lock()
				if len(of.types) < maxTypes && len(t) <= 256 {
					of.types = append(of.types, t)
				}
				cb.mu.Unlock()
			}
		})
		cb.mu.Lock()
		cb.offers[of.object.id] = of
		cb.mu.Unlock()
	case deviceSelection:
		id := m.uint()
		cb.mu.Lock()
		old := cb.now
		cb.now = cb.offers[id]
		if cb.now == old {
			old = nil
		}
		cb.mu.Unlock()
		cb.drop(old)
	case devicePrimary: // what the mouse marked
		id := m.uint()
		cb.mu.Lock()
		of := cb.offers[id]
		cb.mu.Unlock()
		cb.drop(of)
	}
}

// drop lets an offer go.
func (cb *Clipboard) drop(of *offer) {
	if of == nil {
		return
	}
	cb.mu.Lock()
	delete(cb.offers, of.object.id)
	cb.mu.Unlock()
	cb.c.destroy(of.object, offerDestroy)
}

// Write puts text there, sees that it can be read, and has it cleared later.
func (cb *Clipboard) Write(ctx context.Context, text string, concealed bool, clearAfter time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return errors.New("wayland: the text for the clipboard is not text")
	}
	if n := utf8.RuneCountInString(text); n > maxClipboardChars {
		return fmt.Errorf("wayland: %d characters are too many for the clipboard: at most %d", n, maxClipboardChars)
	}
	cb.clearAfter(0)
	s, err := cb.own(text, concealed)
	if err == nil {
		err = cb.c.Sync(ctx)
	}
	var got string
	if err == nil {
		got, err = cb.Read(ctx)
	}
	if err == nil && got != text {
		err = errors.New("wayland: the clipboard was taken by another program, or does not give what was written")
	}
	if err != nil {
		// Nothing of it must stay where nobody was told that it is.
		_, _ = cb.disown(context.WithoutCancel(ctx), s)
		return err
	}
	cb.clearAfter(clearAfter)
	return nil
}

// own makes text what the clipboard holds.
func (cb *Clipboard) own(text string, concealed bool) (*source, error) {
	s := &source{text: text, concealed: concealed}
	var err error
	s.object, err = cb.c.create(cb.manager.id, dataCreateSource, dataSource, cb.version, func(m *message) { cb.asked(s, m) })
	if err != nil {
		return nil, err
	}
	types := textTypes
	if concealed {
		types = append(slices.Clone(types), hintType)
	}
	var all []request
	for _, t := range types {
		all = append(all, request{s.object, sourceOffer, []any{t}})
	}
	all = append(all, request{cb.device, deviceSetSelection, []any{s.object.id}})
	if err := cb.c.sendAll(all...); err != nil {
		return nil, err
	}
	cb.mu.Lock()
	old := cb.ours
	cb.ours = s
	cb.mu.Unlock()
	if old != nil {
		cb.c.destroy(old.object, sourceDestroy)
	}
	return s, nil
}

// asked handles the events of a source: a program wants the text, or another one
// copied.
func (cb *Clipboard) asked(s *source, m *message) {
	switch m.opcode {
	case sourceSend:
		kind, to := m.string(), m.fd()
		if to < 0 {
			return
		}
		// Kept from blocking a thread by the pipe's reader.
		_ = unix.SetNonblock(to, true)
		pipe := os.NewFile(uintptr(to), "clipboard")
		text := s.text
		if kind == hintType {
			text = "secret"
		}
		cb.serving.Go(func() {
			defer pipe.Close()
			// A reader that takes nothing must not keep the text in memory for good.
			_ = pipe.SetWriteDeadline(time.Now().Add(clipboardStep))
			_, _ = io.WriteString(pipe, text)
		})
	case sourceCancelled:
		cb.mu.Lock()
		s.taken = true
		ours := cb.ours == s
		if ours {
			cb.ours = nil
		}
		cb.mu.Unlock()
		if ours {
			cb.c.destroy(s.object, sourceDestroy)
		}
	}
}

// disown takes s from the clipboard, if it holds it, and tells whether it did: a
// source that goes takes what it gave along, and nothing else.
func (cb *Clipboard) disown(ctx context.Context, s *source) (bool, error) {
	if s == nil {
		return false, nil
	}
	cb.mu.Lock()
	if cb.ours == s {
		cb.ours = nil
	}
	cb.mu.Unlock()
	cb.c.destroy(s.object, sourceDestroy)
	// An event that cancelled it before has been heard then.
	if err := cb.c.Sync(ctx); err != nil {
		return false, err
	}
	cb.mu.Lock()
	defer cb.mu.Unlock()
	return !s.taken, nil
}

// clearAfter has the text cleared after d; 0 ends what an earlier one arranged.
func (cb *Clipboard) clearAfter(d time.Duration) {
	cb.mu.Lock()
	defer cb.mu.Unlock()
	if cb.timer != nil {
		cb.timer.Stop()
		cb.timer = nil
	}
	if s := cb.ours; d > 0 && s != nil {
		cb.timer = time.AfterFunc(d, func() {
			ctx, cancel := context.WithTimeout(context.Background(), clipboardStep)
			defer cancel()
			_, _ = cb.disown(ctx, s) // a compositor that ended has forgotten it
		})
	}
}

// Clear empties the clipboard if it holds what Write put there.
func (cb *Clipboard) Clear(ctx context.Context) (bool, error) {
	cb.clearAfter(0)
	if err := cb.c.Sync(ctx); err != nil {
		return false, err
	}
	cb.mu.Lock()
	s := cb.ours
	cb.mu.Unlock()
	return cb.disown(ctx, s)
}

// Read asks who copied for the text. Content that is no text reads as none.
func (cb *Clipboard) Read(ctx context.Context) (string, error) {
	if err := cb.c.Sync(ctx); err != nil { // what was copied before is known now
		return "", err
	}
	// The end that is handed on blocks, as programs expect.
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return "", err
	}
	_ = unix.SetNonblock(ends[0], true)
	read := os.NewFile(uintptr(ends[0]), "clipboard")
	defer read.Close()
	cb.mu.Lock()
	var kind string
	if cb.now != nil {
		for _, t := range textTypes {
			if slices.Contains(cb.now.types, t) {
				kind = t
				break
			}
		}
	}
	if kind == "" {
		cb.mu.Unlock()
		_ = unix.Close(ends[1])
		return "", nil
	}
	// With the lock: the offer is not let go in between.
	err := cb.c.send(cb.now.object, offerReceive, kind, fd(ends[1]))
	cb.mu.Unlock()
	_ = unix.Close(ends[1])
	if err != nil {
		return "", err
	}
	return cb.receive(ctx, read)
}

// receive reads a text to its end.
func (cb *Clipboard) receive(ctx context.Context, read *os.File) (string, error) {
	stop := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var text []byte
	part := make([]byte, 64<<10)
	for {
		_ = read.SetReadDeadline(time.Now().Add(clipboardStep))
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		n, err := read.Read(part)
		text = append(text, part[:n]...)
		switch {
		case len(text) > maxClipboardBytes:
			return "", fmt.Errorf("wayland: the clipboard holds more than %d bytes of text", maxClipboardBytes)
		case errors.Is(err, io.EOF):
			return strings.ToValidUTF8(string(text), "\uFFFD"), nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return "", fmt.Errorf("wayland: the program that holds the clipboard: %w", platform.ErrHung)
		case err != nil:
			return "", err
		}
	}
}

// Close ends what NewClipboard began. The content that Write put there is gone with the connection.
func (cb *Clipboard) Close() error {
	cb.clearAfter(0)
	_ = cb.c.Close() // nothing is served any more
	cb.serving.Wait()
	return nil
}
