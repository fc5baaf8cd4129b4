package x11

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sort"
)

// Modifier bits of the core protocol.
const (
	modShift   = 1 << 0
	modLock    = 1 << 1
	modControl = 1 << 2
	modAlt     = 1 << 3 // Mod1, by every keyboard in use
	modSuper   = 1 << 6 // Mod4
)

// keymap is a keyboard as XKB describes it: which keysym each key makes with
// which modifiers.
type keymap struct {
	first, last byte
	types       []keyType
	rawTypes    []byte // as SetMap wants them
	keys        [256]keyInfo
	modifies    [256]byte // the modifiers that a key stands for
}

// keyType says how modifiers choose among the levels of a key.
type keyType struct {
	mask    byte // the modifiers that matter
	entries []struct{ mods, level byte }
}

type keyInfo struct {
	types  [4]byte // of each group
	groups byte    // how many, and what happens beyond: see group
	width  byte    // levels of the widest group
	syms   []uint32
}

var errKeymap = errors.New("x11: the server's keyboard map is malformed")

// The parts of a map in XKB's GetMap.
const (
	mapTypes = 1 << 0
	mapSyms  = 1 << 1
	mapMods  = 1 << 2
)

// decodeKeymap reads the reply of GetMap for types, keysyms and modifiers:
//
//	…, 10: first keycode, last, present:2, 14: first type, types, of, 17: first key
//	with syms, total:2, keys, 21: actions (5), behaviours (3), explicit (3),
//	31: first key with modifiers, keys, total, 34: virtual (3), …, 40:
//	types:     mask, 3 unused, levels, entries, preserve, 1 unused, then
//	           entries × (active, mask, level, 5 unused), then if preserve entries × 4
//	keys:      4 types, groups, width, syms:2, then syms × 4
//	modifiers: total × (key, mask)
func decodeKeymap(b []byte) (*keymap, error) {
	if len(b) < 40 {
		return nil, errKeymap
	}
	m := &keymap{first: b[10], last: b[11]}
	present := binary.LittleEndian.Uint16(b[12:])
	nTypes, firstSym, nSyms, nMods := int(b[15]), int(b[17]), int(b[20]), int(b[33])
	if present&^(mapTypes|mapSyms|mapMods) != 0 || b[14] != 0 || m.first < 8 || m.last < m.first || firstSym+nSyms > 256 {
		return nil, errKeymap
	}
	rest := b[40:]
	take := func(n int) []byte {
		if n > len(rest) {
			rest = nil
			return nil
		}
		head := rest[:n]
		rest = rest[n:]
		return head
	}
	if present&mapTypes != 0 {
		for range nTypes {
			head := take(8)
			if head == nil {
				return nil, errKeymap
			}
			t := keyType{mask: head[0]}
			m.rawTypes = append(m.rawTypes, head...)
			for range head[5] {
				e := take(8)
				if e == nil {
					return nil, errKeymap
				}
				m.rawTypes = append(m.rawTypes, e[2:6]...)
				if e[0] != 0 {
					t.entries = append(t.entries, struct{ mods, level byte }{e[1], e[2]})
				}
			}
			if n := int(head[5]) * 4; head[6] != 0 && n > 0 {
				e := take(n)
				if e == nil {
					return nil, errKeymap
				}
				m.rawTypes = append(m.rawTypes, e...)
			}
			m.types = append(m.types, t)
		}
	}
	if present&mapSyms != 0 {
		for code := firstSym; code < firstSym+nSyms; code++ {
			head := take(8)
			if head == nil {
				return nil, errKeymap
			}
			k := keyInfo{types: [4]byte(head[:4]), groups: head[4], width: head[5]}
			n := int(binary.LittleEndian.Uint16(head[6:]))
			raw := take(4 * n)
			if n > 0 && raw == nil || n < int(k.groups&0xf)*int(k.width) || k.groups&0xf > 4 {
				return nil, errKeymap
			}
			for i := range n {
				k.syms = append(k.syms, binary.LittleEndian.Uint32(raw[4*i:]))
			}
			m.keys[code] = k
		}
	}
	if present&mapMods != 0 {
		raw := take(2 * nMods)
		if nMods > 0 && raw == nil {
			return nil, errKeymap
		}
		for i := range nMods {
			m.modifies[raw[2*i]] = raw[2*i+1]
		}
	}
	return m, nil
}

// encodeTypes and encodeKeys return the types, and the keys from first to last with how many
// keysyms they have, as SetMap wants them:
//
//	types:  mask, modifiers, virtual:2, levels, entries, preserve, 1 unused, then
//	        entries × (level, modifiers, virtual:2), then if preserve entries × 4
//	keys:   4 types, groups, width, syms:2, then syms × 4
func (m *keymap) encodeTypes() (b []byte, n int) { return m.rawTypes, len(m.types) }

func (m *keymap) encodeKeys(first, last byte) (b []byte, syms int) {
	for code := int(first); code <= int(last); code++ {
		k := &m.keys[code]
		b = append(b, k.types[:]...)
		b = append(b, k.groups, k.width)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(k.syms)))
		for _, sym := range k.syms {
			b = binary.LittleEndian.AppendUint32(b, sym)
		}
		syms += len(k.syms)
	}
	return b, syms
}

// twoLevels is the type of a key that makes one thing without Shift and one with it.
// The first four types are the same on every keyboard.
const twoLevels = 1

// bound is a key that makes sym on both levels, so that it is no pair of small and
// capital letter; 0 is a key without any meaning.
func bound(sym uint32) keyInfo {
	if sym == 0 {
		return keyInfo{}
	}
	return keyInfo{types: [4]byte{twoLevels}, groups: 1, width: 2, syms: []uint32{sym, sym}}
}

// group returns the group of k that counts where the keyboard's is g; false for a
// key without any.
func (k *keyInfo) group(g byte) (byte, bool) {
	n := k.groups & 0xf
	if n == 0 {
		return 0, false
	}
	if g < n {
		return g, true
	}
	switch k.groups & 0xc0 {
	case 0x40: // clamp
		return n - 1, true
	case 0x80: // redirect
		if to := k.groups >> 4 & 3; to < n {
			return to, true
		}
		return 0, true
	}
	return g % n, true
}

// sym returns what a key makes in a group with these modifiers; 0 for nothing.
func (m *keymap) sym(code, group, mods byte) uint32 {
	k := &m.keys[code]
	g, ok := k.group(group)
	if !ok || int(k.types[g]) >= len(m.types) {
		return 0
	}
	t := &m.types[k.types[g]]
	level := byte(0)
	for _, e := range t.entries {
		if e.mods == mods&t.mask {
			level = e.level
			break
		}
	}
	if level >= k.width {
		return 0
	}
	return k.syms[int(g)*int(k.width)+int(level)]
}

// plain tells whether a key makes sym in any group without modifiers.
func (m *keymap) plain(code byte, sym uint32) bool {
	k := &m.keys[code]
	for g := range int(k.groups & 0xf) {
		if k.width > 0 && k.syms[g*int(k.width)] == sym {
			return true
		}
	}
	return false
}

// empty tells whether a key makes nothing at all: it is spare.
func (m *keymap) empty(code byte) bool {
	return m.modifies[code] == 0 && !slices.ContainsFunc(m.keys[code].syms, func(s uint32) bool { return s != 0 })
}

// spares lists the keys that no keyboard makes anything with. The highest come
// first: programs know the fewest of them as something else.
func (m *keymap) spares() (codes []byte) {
	for code := int(m.last); code >= int(m.first); code-- {
		if m.empty(byte(code)) {
			codes = append(codes, byte(code))
		}
	}
	return codes
}

// stroke is how a character is made: a key, held modifiers beside it.
type stroke struct {
	code byte
	mods []byte // keys to hold, in the order of pressing
}

// modifierKey returns a key that holds a level modifier, and the bit it sets.
func (m *keymap) modifierKey(syms ...uint32) (code, bit byte) {
	for _, sym := range syms {
		for c := int(m.first); c <= int(m.last); c++ {
			if m.modifies[c] != 0 && bits.OnesCount8(m.modifies[c]) == 1 && m.plain(byte(c), sym) {
				return byte(c), m.modifies[c]
			}
		}
	}
	return 0, 0
}

// strokes lists how each keysym's character is made in a group while these
// modifiers are locked: the fewest held keys, then the lowest key. Keypad keys
// are left out, they depend on NumLock. The keys of the result are characters,
// and the keysyms of line break and tab.
func (m *keymap) strokes(group, locked byte) map[uint32]stroke {
	type holds struct {
		mods byte
		keys []byte
	}
	shift, shiftBit := m.modifierKey(symShift, symShiftRight)
	third, thirdBit := m.modifierKey(symLevel3)
	fifth, fifthBit := m.modifierKey(symLevel5)
	ways := []holds{{}}
	for _, k := range []struct{ code, bit byte }{{shift, shiftBit}, {third, thirdBit}, {fifth, fifthBit}} {
		if k.code == 0 || k.bit&locked != 0 {
			continue
		}
		for _, w := range slices.Clone(ways) {
			ways = append(ways, holds{w.mods | k.bit, append(slices.Clone(w.keys), k.code)})
		}
	}
	sort.SliceStable(ways, func(i, j int) bool { return len(ways[i].keys) < len(ways[j].keys) })

	all := map[uint32]stroke{}
	for _, w := range ways {
		for c := int(m.first); c <= int(m.last); c++ {
			code := byte(c)
			if m.modifies[code] != 0 {
				continue
			}
			sym := m.sym(code, group, locked|w.mods)
			if sym == 0 || sym >= symKeypadFirst && sym <= symKeypadLast {
				continue
			}
			if r, ok := runeOfSym(sym); ok {
				if sym, ok = symOfRune(r); !ok {
					continue // a code that is no character, such as U+FFFF
				}
			} else if sym != symReturn && sym != symTab {
				continue
			}
			if _, known := all[sym]; !known {
				all[sym] = stroke{code, w.keys}
			}
		}
	}
	return all
}
