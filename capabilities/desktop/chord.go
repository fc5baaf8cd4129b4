package desktop

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

// otherNames are names of keys that callers use for those of platform.KeyNames.
var otherNames = map[string]string{
	"ctrl": "Control", "ctl": "Control", "option": "Alt", "opt": "Alt", "cmd": "Meta", "command": "Meta", "super": "Meta", "win": "Meta",
	"windows": "Meta", "esc": "Escape", "return": "Enter", "del": "Delete", "ins": "Insert", "menu": "ContextMenu", "spacebar": "Space",
	"up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "pgup": "PageUp", "pgdn": "PageDown",
	"page_up": "PageUp", "page_down": "PageDown", "plus": "+", "minus": "-", "print": "PrintScreen", "back_space": "Backspace",
	"caps_lock": "CapsLock",
}

var modifiers = map[string]bool{"Alt": true, "AltGr": true, "Control": true, "Meta": true, "Shift": true}

// maxChord is how many keys a chord may hold down.
const maxChord = 6

// parseChord reads a key or a chord such as "Control+Shift+K" as names for
// platform.Input, in the order of pressing. In a chord a letter is the key, not
// the capital: Shift has to be named. The error never repeats more than a name.
func parseChord(chord string) ([]string, error) {
	if utf8.RuneCountInString(chord) == 1 {
		name, err := keyName(chord)
		if err != nil {
			return nil, err
		}
		return []string{name}, nil
	}
	var keys []string
	for rest := chord; rest != ""; {
		part, more, found := strings.Cut(rest, "+")
		switch {
		case rest == "+": // the plus key itself
			part, more = "+", ""
		case part == "" || found && more == "":
			return nil, fmt.Errorf("a key is missing beside a +")
		}
		name, err := keyName(part)
		if err != nil {
			return nil, err
		}
		if len(keys) == maxChord {
			return nil, fmt.Errorf("more than %d keys", maxChord)
		}
		keys = append(keys, name)
		rest = more
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("no key is named")
	}
	for i, k := range keys {
		if i < len(keys)-1 && !modifiers[k] {
			return nil, fmt.Errorf("the key before the last is not Alt, AltGr, Control, Meta or Shift")
		}
		for _, same := range keys[:i] {
			if same == k {
				return nil, fmt.Errorf("%s is named twice", k)
			}
		}
	}
	if last := keys[len(keys)-1]; len(keys) > 1 && utf8.RuneCountInString(last) == 1 {
		if lower := strings.ToLower(last); utf8.RuneCountInString(lower) == 1 { // not so for a dotted capital I
			keys[len(keys)-1] = lower
		}
	}
	return keys, nil
}

// keyName returns the platform's name of one key.
func keyName(name string) (string, error) {
	if r, size := utf8.DecodeRuneInString(name); size == len(name) && r != utf8.RuneError {
		if unicode.IsControl(r) {
			return "", fmt.Errorf("a control character is no key; use its name, such as Enter or Tab")
		}
		return name, nil
	}
	lower := strings.ToLower(name)
	if known, ok := otherNames[lower]; ok {
		return known, nil
	}
	for _, known := range platform.KeyNames {
		if strings.ToLower(known) == lower {
			return known, nil
		}
	}
	return "", fmt.Errorf("there is no key of that name")
}
