package win32

import "strings"

// key is a virtual key; extended ones need a flag to be told from the number pad's.
type key struct {
	vk       uint16
	extended bool
}

// named are the keys of platform.KeyNames, in lower case.
var named = map[string]key{
	"alt": {0xA4, false}, "altgr": {0xA5, true}, "control": {0xA2, false}, "shift": {0xA0, false}, "meta": {0x5B, true},
	"arrowleft": {0x25, true}, "arrowup": {0x26, true}, "arrowright": {0x27, true}, "arrowdown": {0x28, true},
	"backspace": {0x08, false}, "tab": {0x09, false}, "enter": {0x0D, false}, "escape": {0x1B, false}, "space": {0x20, false},
	"delete": {0x2E, true}, "insert": {0x2D, true}, "home": {0x24, true}, "end": {0x23, true}, "pageup": {0x21, true},
	"pagedown": {0x22, true}, "capslock": {0x14, false}, "numlock": {0x90, true}, "scrolllock": {0x91, false}, "pause": {0x13, false},
	"printscreen": {0x2C, true}, "contextmenu": {0x5D, true}, "f1": {0x70, false}, "f2": {0x71, false}, "f3": {0x72, false},
	"f4": {0x73, false}, "f5": {0x74, false}, "f6": {0x75, false}, "f7": {0x76, false}, "f8": {0x77, false}, "f9": {0x78, false},
	"f10": {0x79, false}, "f11": {0x7A, false}, "f12": {0x7B, false},
}

// keyOf finds the key of a name, or of a character in the present layout.
func keyOf(name string) (key, bool) {
	if k, ok := named[strings.ToLower(name)]; ok {
		return k, true
	}
	r := []rune(name)
	if len(r) != 1 || r[0] > 0xFFFF {
		return key{}, false
	}
	found, _, _ := procVkKeyScan.Call(uintptr(r[0]))
	if vk := uint16(found) & 0xFF; int16(found) != -1 && vk != 0 {
		return key{vk: vk}, true
	}
	return key{}, false
}
