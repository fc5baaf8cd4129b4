package keyboard

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sort"
)

// Modifier bits of the core protocol.
const (
	ModShift   = 1 << 0
	ModLock    = 1 << 1
	ModControl = 1 << 2
	ModAlt     = 1 << 3 // Mod1, by every keyboard in use
	ModSuper   = 1 << 6 // Mod4
)

// Map is a keyboard as XKB describes it: which keysym each key makes with
// which modifiers.
type Map struct {
	First, Last byte
	types       []keyType
	rawTypes    []byte // as SetMap wants them
	Keys        [256]Key
	Modifies    [256]byte // the modifiers that a key stands for
}

// keyType says how modifiers choose among the levels of a key.
type keyType struct {
	mask    byte // the modifiers that matter
	entries []struct{ mods, level byte }
}

type Key struct {
	types  [4]byte // of each group
	groups byte    // how many, and what happens beyond: see group
	width  byte    // levels of the widest group
	Syms   []uint32
}

var errKeymap = errors.New("x11: the server's keyboard map is malformed")

// The parts of a map in XKB's GetMap.
const (
	MapTypes = 1 << 0
	mapSyms  = 1 << 1
	MapMods  = 1 << 2
)

// decodeMap reads the reply of GetMap for types, keysyms and modifiers:
//
//	…, 10: first keycode, last, present:2, 14: first type, types, of, 17: first key
//	with syms, total:2, keys, 21: actions (5), behaviours (3), explicit (3),
//	31: first key with modifiers, keys, total, 34: virtual (3), …, 40:
//	types:     mask, 3 unused, levels, entries, preserve, 1 unused, then
//	           entries × (active, mask, level, 5 unused), then if preserve entries × 4
//	keys:      4 types, groups, width, syms:2, then syms × 4
//	modifiers: total × (key, mask)
func decodeMap(b []byte) (*Map, error) {
	if len(b) < 40 {
		return nil, errKeymap
	}
	m := &Map{First: b[10], Last: b[11]}
	present := binary.LittleEndian.Uint16(b[12:])
	nTypes, firstSym, nSyms, nMods := int(b[15]), int(b[17]), int(b[20]), int(b[33])
	if present&^(MapTypes|mapSyms|MapMods) != 0 || b[14] != 0 || m.First < 8 || m.Last < m.First || firstSym+nSyms > 256 {
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
	if present&MapTypes != 0 {
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
			k := Key{types: [4]byte(head[:4]), groups: head[4], width: head[5]}
			n := int(binary.LittleEndian.Uint16(head[6:]))
			raw := take(4 * n)
			if n > 0 && raw == nil || n < int(k.groups&0xf)*int(k.width) || k.groups&0xf > 4 {
				return nil, errKeymap
			}
			for i := range n {
				k.Syms = append(k.Syms, binary.LittleEndian.Uint32(raw[4*i:]))
			}
			m.Keys[code] = k
		}
	}
	if present&MapMods != 0 {
		raw := take(2 * nMods)
		if nMods > 0 && raw == nil {
			return nil, errKeymap
		}
		for i := range nMods {
			m.Modifies[raw[2*i]] = raw[2*i+1]
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
func (m *Map) encodeTypes() (b []byte, n int) { return m.rawTypes, len(m.types) }

func (m *Map) encodeKeys(first, last byte) (b []byte, syms int) {
	for code := int(first); code <= int(last); code++ {
		k := &m.Keys[code]
		b = append(b, k.types[:]...)
		b = append(b, k.groups, k.width)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(k.Syms)))
		for _, sym := range k.Syms {
			b = binary.LittleEndian.AppendUint32(b, sym)
		}
		syms += len(k.Syms)
	}
	return b, syms
}

// twoLevels is the type of a key that makes one thing without Shift and one with it.
// The first four types are the same on every keyboard.
const twoLevels = 1

// Bound is a key that makes sym on both levels, so that it is no pair of small and
// capital letter; 0 is a key without any meaning.
func Bound(sym uint32) Key {
	if sym == 0 {
		return Key{}
	}
	return Key{types: [4]byte{twoLevels}, groups: 1, width: 2, Syms: []uint32{sym, sym}}
}

// group returns the group of k that counts where the keyboard's is g; false for a
// key without any.
func (k *Key) group(g byte) (byte, bool) {
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
func (m *Map) sym(code, group, mods byte) uint32 {
	k := &m.Keys[code]
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
	return k.Syms[int(g)*int(k.width)+int(level)]
}

// Plain tells whether a key makes sym in any group without modifiers.
func (m *Map) Plain(code byte, sym uint32) bool {
	k := &m.Keys[code]
	for g := range int(k.groups & 0xf) {
		if k.width > 0 && k.Syms[g*int(k.width)] == sym {
			return true
		}
	}
	return false
}

// empty tells whether a key makes nothing at all: it is spare.
func (m *Map) empty(code byte) bool {
	return m.Modifies[code] == 0 && !slices.ContainsFunc(m.Keys[code].Syms, func(s uint32) bool { return s != 0 })
}

// Spares lists the keys that no keyboard makes anything with. The highest come
// first: programs know the fewest of them as something else.
func (m *Map) Spares() (codes []byte) {
	for code := int(m.Last); code >= int(m.First); code-- {
		if m.empty(byte(code)) {
			codes = append(codes, byte(code))
		}
	}
	return codes
}

// Stroke is how a character is made: a key, held modifiers beside it.
type Stroke struct {
	Code byte
	Mods []byte // keys to hold, in the order of pressing
}

// modifierKey returns a key that holds a level modifier, and the bit it sets.
func (m *Map) modifierKey(syms ...uint32) (code, bit byte) {
	for _, sym := range syms {
		for c := int(m.First); c <= int(m.Last); c++ {
			if m.Modifies[c] != 0 && bits.OnesCount8(m.Modifies[c]) == 1 && m.Plain(byte(c), sym) {
				return byte(c), m.Modifies[c]
			}
		}
	}
	return 0, 0
}

// Strokes lists how each keysym's character is made in a group while these
// modifiers are locked: the fewest held keys, then the lowest key. Keypad keys
// are left out, they depend on NumLock. The keys of the result are characters,
// and the keysyms of line break and tab.
func (m *Map) Strokes(group, locked byte) map[uint32]Stroke {
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

	all := map[uint32]Stroke{}
	for _, w := range ways {
		for c := int(m.First); c <= int(m.Last); c++ {
			code := byte(c)
			if m.Modifies[code] != 0 {
				continue
			}
			sym := m.sym(code, group, locked|w.mods)
			if sym == 0 || sym >= symKeypadFirst && sym <= symKeypadLast {
				continue
			}
			if r, ok := runeOfSym(sym); ok {
				if sym, ok = SymOfRune(r); !ok {
					continue // a code that is no character, such as U+FFFF
				}
			} else if sym != symReturn && sym != symTab {
				continue
			}
			if _, known := all[sym]; !known {
				all[sym] = Stroke{code, w.keys}
			}
		}
	}
	return all
}
