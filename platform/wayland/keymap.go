//go:build linux

package wayland

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

// The keyboard that this program types on is its own: a virtual keyboard brings
// its map along, and programs read the map before the keys that were pressed on
// it, in one queue. So keys have the places of a US keyboard, and every other
// character is borrowed a place on the keys that make characters, with AltGr, as
// the keyboards of many languages have them. Other keys will not do: Chromium drops
// what it knows no key for, and goes home, reloads or opens tabs by the multimedia
// keys, whatever character they make.

// Modifiers as bits, in the order that X has given them.
const (
	modShift   = 1 << 0
	modLock    = 1 << 1
	modControl = 1 << 2
	modAlt     = 1 << 3
	modNum     = 1 << 4
	modSuper   = 1 << 6
	modLevel3  = 1 << 7
)

// keysOf lists the keys by the numbers that Linux gives them (input-event-codes.h):
// what each makes, and makes with Shift.
var keysOf = map[uint32][]string{
	1: {"Escape"}, 2: {"1", "exclam"}, 3: {"2", "at"}, 4: {"3", "numbersign"}, 5: {"4", "dollar"}, 6: {"5", "percent"},
	7: {"6", "asciicircum"}, 8: {"7", "ampersand"}, 9: {"8", "asterisk"}, 10: {"9", "parenleft"}, 11: {"0", "parenright"},
	12: {"minus", "underscore"}, 13: {"equal", "plus"}, 14: {"BackSpace"}, 15: {"Tab", "ISO_Left_Tab"},
	16: {"q", "Q"}, 17: {"w", "W"}, 18: {"e", "E"}, 19: {"r", "R"}, 20: {"t", "T"}, 21: {"y", "Y"}, 22: {"u", "U"}, 23: {"i", "I"},
	24: {"o", "O"}, 25: {"p", "P"}, 26: {"bracketleft", "braceleft"}, 27: {"bracketright", "braceright"}, 28: {"Return"},
	29: {"Control_L"}, 30: {"a", "A"}, 31: {"s", "S"}, 32: {"d", "D"}, 33: {"f", "F"}, 34: {"g", "G"}, 35: {"h", "H"},
	36: {"j", "J"}, 37: {"k", "K"}, 38: {"l", "L"}, 39: {"semicolon", "colon"}, 40: {"apostrophe", "quotedbl"},
	41: {"grave", "asciitilde"}, 42: {"Shift_L"}, 43: {"backslash", "bar"}, 44: {"z", "Z"}, 45: {"x", "X"}, 46: {"c", "C"},
	47: {"v", "V"}, 48: {"b", "B"}, 49: {"n", "N"}, 50: {"m", "M"}, 51: {"comma", "less"}, 52: {"period", "greater"},
	53: {"slash", "question"}, 56: {"Alt_L"}, 57: {"space"}, 58: {"Caps_Lock"}, 59: {"F1"}, 60: {"F2"}, 61: {"F3"}, 62: {"F4"},
	63: {"F5"}, 64: {"F6"}, 65: {"F7"}, 66: {"F8"}, 67: {"F9"}, 68: {"F10"}, 69: {"Num_Lock"}, 70: {"Scroll_Lock"}, 87: {"F11"},
	88: {"F12"}, 99: {"Print"}, 100: {"ISO_Level3_Shift"}, 102: {"Home"}, 103: {"Up"}, 104: {"Prior"}, 105: {"Left"},
	106: {"Right"}, 107: {"End"}, 108: {"Down"}, 109: {"Next"}, 110: {"Insert"}, 111: {"Delete"}, 119: {"Pause"},
	125: {"Super_L"}, 127: {"Menu"},
}

// runesOf are the characters of the keys whose names in X are words.
var runesOf = map[string]rune{
	"exclam": '!', "at": '@', "numbersign": '#', "dollar": '$', "percent": '%', "asciicircum": '^', "ampersand": '&', "asterisk": '*',
	"parenleft": '(', "parenright": ')', "minus": '-', "underscore": '_', "equal": '=', "plus": '+', "bracketleft": '[', "braceleft": '{',
	"bracketright": ']', "braceright": '}', "semicolon": ';', "colon": ':', "apostrophe": '\'', "quotedbl": '"', "grave": '`',
	"asciitilde": '~', "backslash": '\\', "bar": '|', "comma": ',', "less": '<', "period": '.', "greater": '>', "slash": '/',
	"question": '?', "space": ' ', "Return": '\n', "Tab": '\t',
}

// namedKeys are the keys of platform.KeyNames.
var namedKeys = map[string]uint32{
	"alt": 56, "altgr": 100, "arrowdown": 108, "arrowleft": 105, "arrowright": 106, "arrowup": 103, "backspace": 14, "capslock": 58,
	"contextmenu": 127, "control": 29, "delete": 111, "end": 107, "enter": 28, "escape": 1, "f1": 59, "f2": 60, "f3": 61, "f4": 62,
	"f5": 63, "f6": 64, "f7": 65, "f8": 66, "f9": 67, "f10": 68, "f11": 87, "f12": 88, "home": 102, "insert": 110, "meta": 125,
	"numlock": 69, "pagedown": 109, "pageup": 104, "pause": 119, "printscreen": 99, "scrolllock": 70, "shift": 42, "space": 57, "tab": 15,
}

// The modifiers that keys hold, and the locks that they turn.
var (
	holds = map[uint32]uint32{42: modShift, 29: modControl, 56: modAlt, 125: modSuper, 100: modLevel3}
	locks = map[uint32]uint32{58: modLock, 69: modNum}
)

const (
	keyShift  = 42
	keyLevel3 = 100
	// The keys F13 to F24 make characters that are pressed with other keys, or are
	// held: AltGr would be one more modifier of a chord.
	firstChord = 183
	lastChord  = 194
)

// stroke is how a character is made: a key, alone or with Shift or AltGr.
type stroke struct {
	code          uint32
	shift, level3 bool
}

func (s stroke) mods() (all uint32) {
	if s.shift {
		all = modShift
	}
	if s.level3 {
		all |= modLevel3
	}
	return all
}

// places3 lists the strokes with AltGr, in the order of the keys.
func places3() []stroke {
	var all []stroke
	for _, code := range slices.Sorted(maps.Keys(keysOf)) {
		if len(keysOf[code]) == 2 && code != namedKeys["tab"] {
			all = append(all, stroke{code, false, true}, stroke{code, true, true})
		}
	}
	return all
}

// plainStrokes lists the characters of the US keyboard.
func plainStrokes() map[rune]stroke {
	all := map[rune]stroke{}
	for code, names := range keysOf {
		for level, name := range names {
			r, ok := runesOf[name]
			if !ok && len(name) == 1 {
				r, ok = rune(name[0]), true
			}
			if ok {
				all[r] = stroke{code: code, shift: level == 1}
			}
		}
	}
	return all
}

// typable reports whether r is a character that a key can make.
func typable(r rune) bool {
	switch {
	case r == '\n' || r == '\r' || r == '\t':
		return true
	case r < 0x20 || r >= 0x7f && r < 0xa0:
		return false
	}
	return utf8.ValidRune(r) && r&0xfffe != 0xfffe // the last two of each plane are no characters
}

// keymap gives each of some characters a place of its own.
type keymap struct {
	plain  map[rune]stroke
	spare  []stroke
	extra  map[rune]stroke // on spare, for typing
	chords map[rune]uint32 // on F13 to F24
}

func newKeymap() *keymap {
	return &keymap{plainStrokes(), places3(), map[rune]stroke{}, map[rune]uint32{}}
}

// find returns the way to type r; false if there is none.
func (k *keymap) find(r rune) (stroke, bool) {
	if r == '\r' {
		r = '\n'
	}
	if s, ok := k.plain[r]; ok {
		return s, true
	}
	s, ok := k.extra[r]
	return s, ok
}

// lend returns places to as many of the runes as there is room for, in their order,
// and tells how many of them have one then, and whether the map changed. Keys that
// are held make what they make alone.
func (k *keymap) lend(runes []rune, held map[uint32]bool) (n int, changed bool) {
	maps.DeleteFunc(k.extra, func(_ rune, s stroke) bool { return held[s.code] })
	free := slices.DeleteFunc(slices.Clone(k.spare), func(s stroke) bool { return held[s.code] })
	var lacking []rune
	need := map[rune]bool{}
	for _, r := range runes {
		if _, ok := k.plain[r]; !ok && r != '\r' && !need[r] {
			if len(need) == len(free) {
				break
			}
			need[r] = true
			if _, has := k.extra[r]; !has {
				lacking = append(lacking, r)
			}
		}
		n++
	}
	if len(lacking) == 0 {
		return n, false
	}
	// In the order of the characters: the map, which every program sees, does not say
	// in which order they are typed.
	slices.Sort(lacking)
	if len(k.extra)+len(lacking) > len(free) {
		maps.DeleteFunc(k.extra, func(r rune, _ stroke) bool { return !need[r] })
	}
	taken := map[stroke]bool{}
	for _, s := range k.extra {
		taken[s] = true
	}
	free = slices.DeleteFunc(free, func(s stroke) bool { return taken[s] })
	for i, r := range lacking {
		k.extra[r] = free[i]
	}
	return n, true
}

// lendChord returns r a key to itself, which it keeps while it is held; false if all
// of them are.
func (k *keymap) lendChord(r rune, held map[uint32]bool) (code uint32, changed, ok bool) {
	if code, ok := k.chords[r]; ok {
		return code, false, true
	}
	taken := map[uint32]rune{}
	for r, code := range k.chords {
		taken[code] = r
	}
	for _, again := range []bool{false, true} {
		for code := uint32(firstChord); code <= lastChord; code++ {
			old, is := taken[code]
			if held[code] || is != again {
				continue
			}
			delete(k.chords, old)
			k.chords[r] = code
			return code, true, true
		}
	}
	return 0, false, false
}

// mapName is how this keyboard's maps are called, by which they are known again.
const mapName = "handrail"

// text writes the map in the format of X's keyboard extension, as version 1 of
// libxkbcommon reads it.
func (k *keymap) text() string {
	var b strings.Builder
	codes := slices.Sorted(maps.Keys(keysOf))
	third := map[stroke]rune{}
	for r, s := range k.extra {
		third[s] = r
	}
	chords := map[uint32]rune{}
	for r, code := range k.chords {
		chords[code] = r
	}
	more := slices.Sorted(maps.Keys(chords))
	b.WriteString("xkb_keymap {\nxkb_keycodes \"" + mapName + "\" {\nminimum = 8;\nmaximum = 255;\n")
	for _, code := range append(slices.Clone(codes), more...) {
		fmt.Fprintf(&b, "<I%d> = %d;\n", code, code+8)
	}
	b.WriteString(`indicator 1 = "Caps Lock";
indicator 2 = "Num Lock";
};
xkb_types "` + mapName + `" {
virtual_modifiers NumLock, Alt, LevelThree, Super;
type "ONE_LEVEL" { modifiers = none; level_name[Level1] = "Any"; };
type "TWO_LEVEL" { modifiers = Shift; map[Shift] = Level2; level_name[Level1] = "Base"; level_name[Level2] = "Shift"; };
type "ALPHABETIC" { modifiers = Shift+Lock; map[Shift] = Level2; map[Lock] = Level2; level_name[Level1] = "Base"; level_name[Level2] = "Caps"; };
type "FOUR_LEVEL" { modifiers = Shift+LevelThree; map[Shift] = Level2; map[LevelThree] = Level3; map[Shift+LevelThree] = Level4;
level_name[Level1] = "Base"; level_name[Level2] = "Shift"; level_name[Level3] = "Third"; level_name[Level4] = "Fourth"; };
};
xkb_compatibility "` + mapName + `" {
virtual_modifiers NumLock, Alt, LevelThree, Super;
interpret.useModMapMods = AnyLevel;
interpret.repeat = False;
interpret Caps_Lock+AnyOfOrNone(all) { action = LockMods(modifiers=Lock); };
interpret Num_Lock+AnyOf(all) { virtualModifier = NumLock; action = LockMods(modifiers=NumLock); };
interpret Alt_L+AnyOf(all) { virtualModifier = Alt; action = SetMods(modifiers=modMapMods); };
interpret Super_L+AnyOf(all) { virtualModifier = Super; action = SetMods(modifiers=modMapMods); };
interpret ISO_Level3_Shift+AnyOf(all) { virtualModifier = LevelThree; action = SetMods(modifiers=modMapMods); };
interpret Shift_L+AnyOf(all) { action = SetMods(modifiers=Shift); };
interpret Control_L+AnyOf(all) { action = SetMods(modifiers=Control); };
indicator "Caps Lock" { whichModState = locked; modifiers = Lock; };
indicator "Num Lock" { whichModState = locked; modifiers = NumLock; };
};
xkb_symbols "` + mapName + `" {
name[Group1] = "` + mapName + `";
`)
	for _, code := range codes {
		names := keysOf[code]
		kind := "ONE_LEVEL"
		if len(names) == 2 {
			kind = "TWO_LEVEL"
			if c := names[0]; len(c) == 1 && c[0] >= 'a' && c[0] <= 'z' {
				kind = "ALPHABETIC"
			}
		}
		if a, b := third[stroke{code, false, true}], third[stroke{code, true, true}]; a != 0 || b != 0 {
			kind, names = "FOUR_LEVEL", append(slices.Clone(names), symbol(a), symbol(b))
		}
		fmt.Fprintf(&b, "key <I%d> { type = \"%s\", [ %s ] };\n", code, kind, strings.Join(names, ", "))
	}
	for _, code := range more {
		fmt.Fprintf(&b, "key <I%d> { type = \"ONE_LEVEL\", [ %s ] };\n", code, symbol(chords[code]))
	}
	b.WriteString(`modifier_map Shift { <I42> };
modifier_map Lock { <I58> };
modifier_map Control { <I29> };
modifier_map Mod1 { <I56> };
modifier_map Mod2 { <I69> };
modifier_map Mod4 { <I125> };
modifier_map Mod5 { <I100> };
};
};
`)
	return b.String()
}

// symbol names a character as X does.
func symbol(r rune) string {
	if r == 0 {
		return "NoSymbol"
	}
	return fmt.Sprintf("U%04X", r)
}

// keyOf returns the stroke of a key's name; r is the character if it is one that the
// map may lack.
func (k *keymap) keyOf(name string) (s stroke, r rune, err error) {
	if r, n := utf8.DecodeRuneInString(name); n == len(name) && n > 0 {
		if !typable(r) {
			return s, 0, fmt.Errorf("no key makes the character U+%04X: %w", r, platform.ErrUntypable)
		}
		s, ok := k.plain[r]
		if !ok {
			return s, r, nil
		}
		return s, 0, nil
	}
	code, ok := namedKeys[strings.ToLower(name)]
	if !ok {
		return s, 0, fmt.Errorf("no key is named %.40q: %w", name, platform.ErrUntypable)
	}
	return stroke{code: code}, 0, nil
}
