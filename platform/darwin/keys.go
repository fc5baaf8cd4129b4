package darwin

import (
	"strings"
	"unicode/utf8"
)

// The flags that modifiers put on events (kCGEventFlagMask…).
const (
	flagShift   = 0x20000
	flagControl = 0x40000
	flagAlt     = 0x80000
	flagCommand = 0x100000
	flagAll     = flagShift | flagControl | flagAlt | flagCommand
)

// key is a virtual key code (kVK_…), the flag it holds down if it is a modifier,
// and the character it is named by, if it is named by one.
type key struct {
	code uint16
	flag uint64
	char rune
	// anyhow is a character that no key of the table makes: the event carries it.
	anyhow bool
}

// named are the keys of platform.KeyNames, in lower case. A Mac's keyboard has
// none of Insert (Help is there), NumLock (Clear), ScrollLock (F14), Pause (F15),
// PrintScreen (F13) and ContextMenu; those are what PC keyboards make here.
var named = map[string]key{
	"alt": {code: 58, flag: flagAlt}, "altgr": {code: 61, flag: flagAlt}, "control": {code: 59, flag: flagControl},
	"shift": {code: 56, flag: flagShift}, "meta": {code: 55, flag: flagCommand},
	"arrowleft": {code: 123}, "arrowright": {code: 124}, "arrowdown": {code: 125}, "arrowup": {code: 126},
	"backspace": {code: 51}, "tab": {code: 48}, "enter": {code: 36}, "escape": {code: 53}, "space": {code: 49},
	"delete": {code: 117}, "insert": {code: 114}, "home": {code: 115}, "end": {code: 119}, "pageup": {code: 116}, "pagedown": {code: 121},
	"capslock": {code: 57}, "numlock": {code: 71}, "scrolllock": {code: 107}, "pause": {code: 113}, "printscreen": {code: 105},
	"contextmenu": {code: 110}, "f1": {code: 122}, "f2": {code: 120}, "f3": {code: 99}, "f4": {code: 118}, "f5": {code: 96}, "f6": {code: 97},
	"f7": {code: 98}, "f8": {code: 100}, "f9": {code: 101}, "f10": {code: 109}, "f11": {code: 103}, "f12": {code: 111},
}

// ansi are the keys of characters on a keyboard of the United States, by their
// places (kVK_ANSI_…); the same key makes another character in other layouts, so
// its events carry the character, too.
var ansi = map[rune]uint16{
	'a': 0, 's': 1, 'd': 2, 'f': 3, 'h': 4, 'g': 5, 'z': 6, 'x': 7, 'c': 8, 'v': 9, 'b': 11, 'q': 12, 'w': 13, 'e': 14, 'r': 15, 'y': 16,
	't': 17, '1': 18, '2': 19, '3': 20, '4': 21, '6': 22, '5': 23, '=': 24, '9': 25, '7': 26, '-': 27, '8': 28, '0': 29, ']': 30, 'o': 31,
	'u': 32, '[': 33, 'i': 34, 'p': 35, 'l': 37, 'j': 38, '\'': 39, 'k': 40, ';': 41, '\\': 42, ',': 43, '/': 44, 'n': 45, 'm': 46, '.': 47,
	'`': 50, ' ': 49,
}

// keyOf finds the key of a name, or of a character.
func keyOf(name string) (key, bool) {
	if k, ok := named[strings.ToLower(name)]; ok {
		return k, true
	}
	r, size := utf8.DecodeRuneInString(name)
	if size != len(name) || r == utf8.RuneError || r < ' ' {
		return key{}, false
	}
	lower := r
	if r >= 'A' && r <= 'Z' {
		lower += 'a' - 'A'
	}
	if code, ok := ansi[lower]; ok {
		return key{code: code, char: r}, true
	}
	return key{char: r, anyhow: true}, true
}

// hotkeyOf reads "ctrl+alt+escape".
func hotkeyOf(hotkey string) (flags uint64, code uint16, ok bool) {
	parts := strings.Split(strings.ToLower(hotkey), "+")
	for i, p := range parts {
		switch p {
		case "ctrl":
			p = "control"
		case "cmd", "command", "super":
			p = "meta"
		case "option":
			p = "alt"
		}
		k, found := keyOf(p)
		last := i == len(parts)-1
		if !found || k.anyhow || last != (k.flag == 0) {
			return 0, 0, false
		}
		if last {
			return flags, k.code, true
		}
		flags |= k.flag
	}
	return 0, 0, false
}
