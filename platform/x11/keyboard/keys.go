package keyboard

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

// Keysyms that have a meaning of their own here.
const (
	symTab         = 0xff09
	symReturn      = 0xff0d
	symModeSwitch  = 0xff7e
	symNumLock     = 0xff7f
	symKeypadFirst = 0xff80 // keypad keys: what they make depends on NumLock
	symKeypadLast  = 0xffbd
	symShift       = 0xffe1
	symShiftRight  = 0xffe2
	symLevel3      = 0xfe03 // AltGr
	symLevel5      = 0xfe11
	symUnicode     = 0x01000000 // plus the code point
)

// namedKeys are the keysyms of platform.KeyNames; of several, the first one that
// the keyboard has is the key.
var namedKeys = map[string][]uint32{
	"alt": {0xffe9, 0xffea}, "altgr": {symLevel3, symModeSwitch, 0xffea}, "arrowdown": {0xff54}, "arrowleft": {0xff51},
	"arrowright": {0xff53}, "arrowup": {0xff52}, "backspace": {0xff08}, "capslock": {0xffe5}, "contextmenu": {0xff67},
	"control": {0xffe3, 0xffe4}, "delete": {0xffff}, "end": {0xff57}, "enter": {symReturn}, "escape": {0xff1b},
	"f1": {0xffbe}, "f2": {0xffbf}, "f3": {0xffc0}, "f4": {0xffc1}, "f5": {0xffc2}, "f6": {0xffc3}, "f7": {0xffc4},
	"f8": {0xffc5}, "f9": {0xffc6}, "f10": {0xffc7}, "f11": {0xffc8}, "f12": {0xffc9},
	"home": {0xff50}, "insert": {0xff63}, "meta": {0xffeb, 0xffec, 0xffe7, 0xffe8}, "numlock": {symNumLock},
	"pagedown": {0xff56}, "pageup": {0xff55}, "pause": {0xff13}, "printscreen": {0xff61}, "scrolllock": {0xff14},
	"shift": {symShift, symShiftRight}, "space": {0x20}, "tab": {symTab},
}

// SymsOfName returns the keysyms that a key's name stands for, and whether it is a
// character, whose key may need modifiers to make it.
func SymsOfName(name string) (syms []uint32, char bool, err error) {
	if r, n := utf8.DecodeRuneInString(name); n == len(name) && n > 0 {
		sym, ok := SymOfRune(r)
		if !ok {
			return nil, false, fmt.Errorf("no key makes the character U+%04X: %w", r, platform.ErrUntypable)
		}
		return []uint32{sym}, sym != symReturn && sym != symTab, nil
	}
	if syms = namedKeys[strings.ToLower(name)]; syms == nil {
		return nil, false, fmt.Errorf("no key is named %.40q: %w", name, platform.ErrUntypable)
	}
	return syms, false, nil
}

// SymOfRune returns the keysym that every program reads as r: Latin-1 stands for
// itself, the rest is Unicode's own range. Line breaks and tabs are keys; other
// control characters have none.
func SymOfRune(r rune) (uint32, bool) {
	switch {
	case r == '\n' || r == '\r':
		return symReturn, true
	case r == '\t':
		return symTab, true
	case r >= 0x20 && r < 0x7f, r >= 0xa0 && r <= 0xff:
		return uint32(r), true
	case r >= 0x100 && utf8.ValidRune(r) && r&0xfffe != 0xfffe: // the last two of each plane are no characters
		return symUnicode | uint32(r), true
	}
	return 0, false
}

// runeOfSym returns the character that programs read from a keysym; false if none.
func runeOfSym(sym uint32) (rune, bool) {
	switch {
	case sym >= 0x20 && sym < 0x7f, sym >= 0xa0 && sym <= 0xff:
		return rune(sym), true
	case sym&0xff000000 == symUnicode:
		r := rune(sym &^ symUnicode)
		return r, utf8.ValidRune(r) && r >= 0x100
	}
	i, found := slices.BinarySearchFunc(legacyKeysyms[:], sym, func(run struct {
		sym  uint32
		char rune
		n    uint32
	}, sym uint32) int {
		return int(run.sym) - int(sym)
	})
	if !found {
		i--
	}
	if i < 0 || sym-legacyKeysyms[i].sym >= legacyKeysyms[i].n {
		return 0, false
	}
	return legacyKeysyms[i].char + rune(sym-legacyKeysyms[i].sym), true
}
