//go:build linux

package wayland

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// Places are a layout, with where each of its displays is in the compositor's own
// units, in which others than this package's protocols count.
type Places struct {
	platform.Layout
	Logical []platform.Rect
}

// Places returns the displays as they are now, in both ways of counting.
func (o *Outputs) Places(ctx context.Context) (Places, error) {
	if err := o.c.Sync(ctx); err != nil {
		return Places{}, err
	}
	l, places := o.known()
	all := Places{Layout: l}
	for _, p := range places {
		all.Logical = append(all.Logical, p.logical)
	}
	return all, nil
}

// Keycode returns the number that Linux has for a key of platform.KeyNames.
func Keycode(name string) (uint32, bool) {
	code, ok := namedKeys[strings.ToLower(name)]
	return code, ok
}

// maxMap bounds the map of a keyboard.
const maxMap = 4 << 20

// Runes returns the characters that the seat's keyboard makes, whichever of its
// layouts is in force. A seat without a keyboard has none.
func Runes(ctx context.Context, c *Conn) (map[rune]bool, error) {
	if c.Offers(wlSeat.name) == 0 {
		return map[rune]bool{}, nil
	}
	var mu sync.Mutex
	has, text := false, ""
	seat, err := c.bindOne(wlSeat, func(m *message) {
		if m.opcode == seatCapabilities {
			mu.Lock()
			has = m.uint()&seatHasKeyboard != 0
			mu.Unlock()
		}
	})
	if err != nil {
		return nil, err
	}
	if seat.version >= 5 {
		defer c.destroy(seat, seatRelease)
	}
	if err := c.Sync(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	there := has
	mu.Unlock()
	if !there {
		return map[rune]bool{}, nil
	}
	keyboard, err := c.create(seat.id, seatGetKeyboard, wlKeyboard, seat.version, func(m *message) {
		if m.opcode != keyboardKeymap {
			return
		}
		kind := m.uint()
		f, size := m.fd(), m.uint()
		if f < 0 {
			return
		}
		defer unix.Close(f)
		if kind != keymapXKB || size > maxMap {
			return
		}
		b := make([]byte, size)
		n, _ := unix.Pread(f, b, 0)
		mu.Lock()
		text = string(b[:max(n, 0)])
		mu.Unlock()
	})
	if err != nil {
		return nil, err
	}
	if keyboard.version >= 3 {
		defer c.destroy(keyboard, keyboardRelease)
	}
	if err := c.Sync(ctx); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return runesIn(text), nil
}

var (
	keyRows   = regexp.MustCompile(`key\s+<[^>]*>\s*\{([^}]*)\}`)
	levelRows = regexp.MustCompile(`(?:symbols\[[^\]]*\]\s*=\s*)?\[([^\[\]]*)\]`)
	otherRows = regexp.MustCompile(
		`(?:type|actions|virtualMods|vmods|groupsRedirect|groupsClamp|groupsWrap|repeat)(?:\[[^\]]*\])?\s*=\s*(?:"[^"]*"|[A-Za-z0-9_]+|\[[^\]]*\])`)
)

// runesIn reads the map of a keyboard for the characters that it makes in every one
// of its layouts, for nobody tells which of them is in force.
func runesIn(text string) map[rune]bool {
	_, symbols, _ := strings.Cut(text, "xkb_symbols")
	var layouts []map[rune]bool
	var all [][][]rune // of each key, of each of its layouts
	for _, key := range keyRows.FindAllStringSubmatch(symbols, -1) {
		var groups [][]rune
		for _, levels := range levelRows.FindAllStringSubmatch(otherRows.ReplaceAllString(key[1], ""), -1) {
			var makes []rune
			for name := range strings.SplitSeq(levels[1], ",") {
				if r, ok := runeOf(strings.TrimSpace(name)); ok && typable(r) {
					makes = append(makes, r)
				}
			}
			groups = append(groups, makes)
		}
		all = append(all, groups)
		for len(layouts) < len(groups) {
			layouts = append(layouts, map[rune]bool{})
		}
	}
	for _, groups := range all {
		for i := range layouts {
			if len(groups) > 0 { // a key of fewer layouts makes the same in the rest
				for _, r := range groups[i%len(groups)] {
					layouts[i][r] = true
				}
			}
		}
	}
	common := map[rune]bool{}
	if len(layouts) > 0 {
		for r := range layouts[0] {
			every := true
			for _, l := range layouts {
				every = every && l[r]
			}
			if every {
				common[r] = true
			}
		}
	}
	return common
}

// latin names the characters from U+00A0 on as X does.
var latin = strings.Fields(
	`nobreakspace exclamdown cent sterling currency yen brokenbar section diaeresis copyright ordfeminine guillemotleft
notsign hyphen registered macron degree plusminus twosuperior threesuperior acute mu paragraph periodcentered cedilla onesuperior masculine
guillemotright onequarter onehalf threequarters questiondown Agrave Aacute Acircumflex Atilde Adiaeresis Aring AE Ccedilla Egrave Eacute
Ecircumflex Ediaeresis Igrave Iacute Icircumflex Idiaeresis ETH Ntilde Ograve Oacute Ocircumflex Otilde Odiaeresis multiply Oslash Ugrave
Uacute Ucircumflex Udiaeresis Yacute THORN ssharp agrave aacute acircumflex atilde adiaeresis aring ae ccedilla egrave eacute ecircumflex
ediaeresis igrave iacute icircumflex idiaeresis eth ntilde ograve oacute ocircumflex otilde odiaeresis division oslash ugrave uacute
ucircumflex udiaeresis yacute thorn ydiaeresis`)

// runeOf returns the character of a name of X's; false for keys that make none and for
// names that are not known here, which then count as not to be had.
func runeOf(name string) (rune, bool) {
	if r, n := utf8.DecodeRuneInString(name); n == len(name) && n > 0 {
		return r, true
	}
	if r, ok := runesOf[name]; ok && r >= ' ' {
		return r, true
	}
	if name == "EuroSign" {
		return '€', true
	}
	for i, known := range latin {
		if known == name {
			return rune(0xa0 + i), true
		}
	}
	hex, ok := strings.CutPrefix(name, "U")
	if !ok {
		hex, ok = strings.CutPrefix(name, "0x100")
	}
	if n, err := strconv.ParseUint(hex, 16, 32); ok && err == nil && len(hex) >= 4 && utf8.ValidRune(rune(n)) {
		return rune(n), typable(rune(n))
	}
	return 0, false
}
