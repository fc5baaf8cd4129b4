//go:build linux

package wayland

import (
	"strings"
	"testing"
)

// A person's map as compositors write it: with types and actions, layouts side by
// side, and one above the other.
const personsMap = `xkb_keymap { xkb_keycodes "x" { <AE01> = 10; <AD01> = 24; <LFSH> = 50; };
xkb_symbols "pc_us_ru" {
	name[Group1]="English";
	key <AE01> {	[ 1, exclam ] };
	key <AE02> {	type= "FOUR_LEVEL", symbols[Group1]= [ 2, quotedbl, twosuperior, EuroSign ], symbols[Group2]= [ 2, at, U6F22, NoSymbol ] };
	key <AD01> {	type[Group1]= "ALPHABETIC", type[Group2]= "ALPHABETIC", symbols[Group1]= [ q, Q ], symbols[Group2]= [ Cyrillic_shorti, Cyrillic_SHORTI ] };
	key <AC10> {	[ odiaeresis, Odiaeresis ], [ odiaeresis, U1F600 ] };
	key <LFSH> {	[ Shift_L ], actions[Group1]= [ SetMods(modifiers=Shift) ] };
	key <RTRN> {	[ Return ] };
};
};`

func TestRunesOfAMap(t *testing.T) {
	have := runesIn(personsMap)
	for _, r := range "1!2ö" {
		if !have[r] {
			t.Errorf("%q is on the keyboard, in every layout", r)
		}
	}
	for _, r := range "qQ\"@²€漢😀Ö\n" {
		if have[r] {
			t.Errorf("%q is not on the keyboard in every layout", r)
		}
	}
	if one := runesIn(strings.ReplaceAll(personsMap, "Group2", "Group1")); len(one) == 0 {
		t.Error("a map without characters")
	}
	if ours := runesIn(newKeymap().text()); !ours['a'] || !ours['~'] || ours['é'] {
		t.Errorf("this program's own map has %d characters", len(ours))
	}
}

func FuzzRunes(f *testing.F) {
	f.Add(personsMap)
	f.Add(newKeymap().text())
	f.Add(`xkb_symbols { key <A> { [ U110000, U000000D8, 0x10020ac, U20, U41 ], symbols[1] = [] , [] } };`)
	f.Fuzz(func(t *testing.T, text string) {
		for r := range runesIn(text) {
			if !typable(r) && r >= 0x20 {
				t.Errorf("%U cannot be typed", r)
			}
		}
	})
}
