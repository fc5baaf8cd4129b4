package input

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jezek/xgb/xproto"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/x11/keyboard"
	"github.com/handrail-dev/handrail/platform/x11/wire"
)

// spareKeys are the keys without a meaning that are given one for a while, to make
// characters that the keyboard does not have.
//
// A change of the keyboard has every program read all of it anew, which takes a window
// manager a tenth of a second. So the keys are changed together, by one request, and only
// those of XTEST's keyboard, which nobody types on: that request names every key between
// the first and the last, so it sends those of no use back as they were. Servers that
// have no such keyboard, or do not take the request, are told of key by key.
//
// A key that is to be bound stands in a property of the root window first, under a name with the
// number of this program's window. A program that was killed leaves the property but not the
// window, so that the next one knows what to restore.
type spareKeys struct {
	conn   *wire.Conn
	xkb    *keyboard.XKB
	device uint16        // XTEST's keyboard; keyboard.Core: keys are changed one by one, on all keyboards
	proven bool          // it was seen that programs see what is bound on it
	asked  atomic.Uint32 // the change whose news is outstanding; see askedFor
	window xproto.Window // this program's, with the property sparesMark
	record xproto.Atom   // the root's property
	ours   [256]atomic.Bool
	// bound are the keys that have a meaning of ours.
	bound map[byte]uint32
	// free are the keys without any meaning, by the last reading of the keyboard.
	free []byte
	// mark is one of them that never gets any; see Input.ready. 0 if there is none.
	mark byte
}

// fewSpares are too few to keep one from being bound.
const fewSpares = 3

const (
	sparesMark   = "_HANDRAIL_KEYBOARD"
	sparesRecord = "_HANDRAIL_KEYS_"
)

func newSpareKeys(ctx context.Context, c *wire.Conn, keys *keyboard.XKB) (*spareKeys, error) {
	s := &spareKeys{conn: c, xkb: keys, bound: map[byte]uint32{}}
	var err error
	if s.device, err = xtestKeyboard(ctx, c, keys); err != nil {
		return nil, err
	}
	// Healing comes before there is a window of ours: it may get the number that the
	// window of a killed program had.
	if err = s.heal(ctx); err != nil {
		return nil, err
	}
	if s.window, err = c.NewWindow(ctx); err != nil {
		return nil, err
	}
	mark, err := c.Atom(ctx, sparesMark)
	if err != nil {
		return nil, err
	}
	if s.record, err = c.Atom(ctx, sparesRecord+strconv.FormatUint(uint64(s.window), 16)); err != nil {
		return nil, err
	}
	return s, c.Do(ctx, func() error {
		return xproto.ChangePropertyChecked(c.X, xproto.PropModeReplace, s.window, mark, xproto.AtomCardinal, 32, 1, make([]byte, 4)).Check()
	})
}

// xtestKeyboard returns XTEST's keyboard, or keyboard.Core if the server has none that
// can be told of by itself. Of the devices that a server makes before all others it is
// the last: after the mouse and the keyboard of the screen, and XTEST's mouse.
func xtestKeyboard(ctx context.Context, c *wire.Conn, keys *keyboard.XKB) (uint16, error) {
	const fourth = 5 // they are counted from 2
	e, err := c.Extension(ctx, "XInputExtension")
	if err != nil || !e.Present {
		return keyboard.Core, err
	}
	if is, err := c.IsXTest(ctx, e.Major, fourth); err != nil || !is {
		return keyboard.Core, err
	}
	_, err = keys.Read(ctx, fourth)
	if ctx.Err() != nil || errors.Is(err, platform.ErrLost) {
		return 0, err
	}
	if err != nil {
		return keyboard.Core, nil
	}
	return fourth, nil
}

// read returns the keyboard that presses of ours are made on.
func (s *spareKeys) read(ctx context.Context) (*keyboard.Map, error) {
	return s.xkb.Read(ctx, s.device)
}

// heal restores what killed programs left bound.
func (s *spareKeys) heal(ctx context.Context) error {
	c := s.conn
	all, err := wire.Ask(ctx, c, func() (*xproto.ListPropertiesReply, error) { return xproto.ListProperties(c.X, c.Root()).Reply() })
	if err != nil {
		return err
	}
	mark, err := c.Atom(ctx, sparesMark)
	if err != nil {
		return err
	}
	for _, atom := range all.Atoms {
		name, err := c.AtomName(ctx, atom)
		if err != nil {
			return err
		}
		number, ours := strings.CutPrefix(name, sparesRecord)
		w, err := strconv.ParseUint(number, 16, 32)
		if !ours || err != nil {
			continue
		}
		living, err := wire.Ask(ctx, c, func() (*xproto.GetPropertyReply, error) {
			return xproto.GetProperty(c.X, false, xproto.Window(w), mark, xproto.GetPropertyTypeAny, 0, 1).Reply()
		})
		if err == nil && living.Type != 0 {
			continue // another node at work
		}
		left, err := wire.Ask(ctx, c, func() (*xproto.GetPropertyReply, error) {
			return xproto.GetProperty(c.X, true, c.Root(), atom, xproto.AtomCardinal, 0, 512).Reply()
		})
		if err != nil {
			return err
		}
		keys, err := s.read(ctx)
		if err != nil {
			return err
		}
		gone := map[byte]uint32{}
		for b := left.Value; len(b) >= 8; b = b[8:] {
			code, sym := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
			if code < 256 && sym != 0 && keys.Plain(byte(code), sym) && keys.Modifies[code] == 0 {
				gone[byte(code)] = 0
			}
		}
		if err := s.set(ctx, gone); err != nil {
			return err
		}
	}
	return c.Sync(ctx)
}

// set returns keys their meanings; 0 takes it away.
func (s *spareKeys) set(ctx context.Context, syms map[byte]uint32) error {
	if len(syms) == 0 {
		return nil
	}
	if s.device != keyboard.Core {
		err := s.setAtOnce(ctx, syms)
		if err == nil || ctx.Err() != nil || errors.Is(err, platform.ErrLost) {
			return err
		}
		s.device = keyboard.Core
	}
	return s.conn.Do(ctx, func() error {
		for code, sym := range syms {
			// Both levels get it, so that the server makes no pair of small and capital
			// letter of it.
			xproto.ChangeKeyboardMapping(s.conn.X, 1, xproto.Keycode(code), 2, []xproto.Keysym{xproto.Keysym(sym), xproto.Keysym(sym)})
		}
		return nil
	})
}

// setAtOnce is set on XTEST's keyboard.
func (s *spareKeys) setAtOnce(ctx context.Context, syms map[byte]uint32) error {
	keys, err := s.read(ctx)
	if err != nil {
		return err
	}
	first, last := byte(255), byte(0)
	binds := false
	for code, sym := range syms {
		first, last = min(first, code), max(last, code)
		keys.Keys[code] = keyboard.Bound(sym)
		binds = binds || sym != 0
	}
	if binds { // so that programs hear of it; it does so by the release of a key that is up
		fakeKey(s.conn, first, false)
	}
	s.asked.Store(askedFor(first, last-first+1))
	defer s.asked.Store(0) // all news is before the answer
	if err := s.xkb.SetKeys(ctx, s.device, keys, first, last); err != nil || !binds || s.proven {
		return err
	}
	if s.proven, err = s.seen(ctx, syms); err == nil && !s.proven {
		err = errors.New("x11: what XTEST's keyboard makes is not what programs see")
	}
	return err
}

// askedFor stands for a change of so many keys from first on; 0 is none.
func askedFor(first, n byte) uint32 { return 1<<16 | uint32(first)<<8 | uint32(n) }

// survey learns from a new reading of the keyboard what is free, and what of ours somebody took. A
// lent key is taken out of the reading: it is none of the keyboard's own, and not for long.
func (s *spareKeys) survey(keys *keyboard.Map) {
	for code, sym := range s.bound {
		if keys.Plain(code, sym) {
			keys.Keys[code] = keyboard.Key{}
			continue
		}
		delete(s.bound, code)
		s.ours[code].Store(false)
	}
	s.free = keys.Spares()
	s.mark = 0
	if n := len(s.free); n > fewSpares {
		s.mark = s.free[n-1]
		s.free = s.free[:n-1]
	}
	lent := func(code byte) bool { return s.bound[code] != 0 }
	s.free = slices.DeleteFunc(s.free, lent)
	if lent(s.mark) {
		s.mark = 0
	}
}

// find returns the key that makes sym, if one does.
func (s *spareKeys) find(sym uint32) (byte, bool) {
	for code, have := range s.bound {
		if have == sym {
			return code, true
		}
	}
	return 0, false
}

// room tells how many characters can be bound at once, beside those kept.
func (s *spareKeys) room(keep map[byte]bool) int {
	n := len(s.free) + len(s.bound)
	for code := range keep {
		if _, ok := s.bound[code]; ok {
			n--
		}
	}
	return n
}

// bind returns keys to those of wanted that have none; keys in keep stay as they are.
// Unless it is fresh, the caller knows that every program has come by the presses
// so far.
func (s *spareKeys) bind(ctx context.Context, wanted []uint32, keep map[byte]bool) error {
	needed := map[byte]bool{}
	var missing []uint32
	for _, sym := range wanted {
		if code, ok := s.find(sym); ok {
			needed[code] = true
		} else {
			missing = append(missing, sym)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	var codes []byte
	for _, code := range s.free {
		if len(codes) < len(missing) {
			codes = append(codes, code)
		}
	}
	for code := range s.bound {
		if len(codes) < len(missing) && !needed[code] && !keep[code] {
			codes = append(codes, code)
		}
	}
	if len(codes) < len(missing) {
		return fmt.Errorf("this keyboard has %d keys to spare for characters that it lacks: %w", s.room(keep), platform.ErrUntypable)
	}
	for i, code := range codes {
		s.bound[code] = missing[i]
		s.ours[code].Store(true)
	}
	s.free = slices.DeleteFunc(s.free, func(code byte) bool { return slices.Contains(codes, code) })
	if err := s.note(ctx); err != nil {
		return err
	}
	syms := map[byte]uint32{}
	for i, code := range codes {
		syms[code] = missing[i]
	}
	return s.set(context.WithoutCancel(ctx), syms)
}

// fresh tells whether bind can do without giving any key another meaning.
func (s *spareKeys) fresh(syms []uint32) bool {
	n := 0
	for _, sym := range syms {
		if _, ok := s.find(sym); !ok {
			n++
		}
	}
	return n <= len(s.free)
}

// note writes down what is bound.
func (s *spareKeys) note(ctx context.Context) error {
	var b []byte
	for code, sym := range s.bound {
		b = binary.LittleEndian.AppendUint32(b, uint32(code))
		b = binary.LittleEndian.AppendUint32(b, sym)
	}
	c := s.conn
	return c.Do(ctx, func() error {
		if len(b) == 0 {
			return xproto.DeletePropertyChecked(c.X, c.Root(), s.record).Check()
		}
		return xproto.ChangePropertyChecked(c.X, xproto.PropModeReplace, c.Root(), s.record, xproto.AtomCardinal, 32, uint32(len(b)/4), b).Check()
	})
}

// still tells whether the bound keys make what they were bound to.
func (s *spareKeys) still(ctx context.Context) (bool, error) {
	if s.device == keyboard.Core || len(s.bound) == 0 {
		return s.seen(ctx, s.bound)
	}
	keys, err := s.read(ctx)
	if err != nil {
		return false, err
	}
	for code, sym := range s.bound {
		if !keys.Plain(code, sym) {
			return false, nil
		}
	}
	return true, nil
}

// seen tells whether keys make these for programs that ask now.
func (s *spareKeys) seen(ctx context.Context, syms map[byte]uint32) (bool, error) {
	c := s.conn
	low, high := byte(255), byte(0)
	for code := range syms {
		low, high = min(low, code), max(high, code)
	}
	if high == 0 {
		return true, nil
	}
	r, err := wire.Ask(ctx, c, func() (*xproto.GetKeyboardMappingReply, error) {
		return xproto.GetKeyboardMapping(c.X, xproto.Keycode(low), high-low+1).Reply()
	})
	if err != nil {
		return false, err
	}
	for code, sym := range syms {
		at := int(code-low) * int(r.KeysymsPerKeycode)
		if at >= len(r.Keysyms) || uint32(r.Keysyms[at]) != sym {
			return false, nil
		}
	}
	return true, nil
}

// restore takes every meaning away but those of the keys in keep.
func (s *spareKeys) restore(ctx context.Context, keep map[byte]bool) error {
	var codes []byte
	for code := range s.bound {
		if !keep[code] {
			codes = append(codes, code)
		}
	}
	if len(codes) == 0 {
		return nil
	}
	gone := map[byte]uint32{}
	for _, code := range codes {
		gone[code] = 0
	}
	err := s.set(context.WithoutCancel(ctx), gone)
	if err == nil {
		err = s.conn.Sync(ctx)
	}
	if err != nil {
		return err
	}
	for _, code := range codes {
		delete(s.bound, code)
		s.ours[code].Store(false)
		s.free = append(s.free, code)
	}
	return s.note(ctx)
}
