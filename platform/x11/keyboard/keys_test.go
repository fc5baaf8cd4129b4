package keyboard

import (
	"testing"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/platform"
)

// Every character that has a keysym is read back from it, and the old keysyms are
// in order and mean characters.
func TestKeysyms(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		sym, ok := SymOfRune(r)
		if !ok || r == '\n' || r == '\r' || r == '\t' {
			continue
		}
		if back, ok := runeOfSym(sym); !ok || back != r {
			t.Fatalf("U+%04X is keysym %#x, which is U+%04X (%v)", r, sym, back, ok)
		}
	}
	for i, run := range legacyKeysyms[1:] {
		if last := legacyKeysyms[i]; run.sym < last.sym+last.n {
			t.Errorf("keysym %#x is out of order", run.sym)
		}
	}
	for sym, want := range map[uint32]rune{0x6c1: 'а', 0x7e1: 'α', 0x1b1: 'ą', 0x20ac: '€', 0x41: 'A', 0x10004e00: 0, 0xff0d: 0, 0x1004e00: '一'} {
		got, ok := runeOfSym(sym)
		if ok != (want != 0) || ok && got != want {
			t.Errorf("keysym %#x is %q, want %q", sym, got, want)
		}
	}
	for _, name := range platform.KeyNames {
		if syms, _, err := SymsOfName(name); err != nil || len(syms) == 0 {
			t.Errorf("the key %s has no keysym: %v", name, err)
		}
	}
}

// A map that a server sends, and any other bytes, are read or refused, and what was
// read can be used.
func FuzzKeymap(f *testing.F) {
	small := make([]byte, 40)
	small[10], small[11], small[12], small[15], small[17], small[20] = 8, 9, 3, 1, 8, 1
	small = append(small, 1, 1, 0, 0, 2, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0) // a type of two levels
	small = append(small, 0, 0, 0, 0, 1, 2, 2, 0, 'a', 0, 0, 0, 'A', 0, 0, 0)
	if m, err := decodeMap(small); err != nil || m.sym(8, 0, ModShift) != 'A' || m.sym(8, 3, 0) != 'a' {
		f.Fatalf("the seed is read as %+v: %v", m, err)
	}
	f.Add(small)
	f.Add(small[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMap(b)
		if err != nil {
			if m != nil {
				t.Error("a map beside an error")
			}
			return
		}
		m.Spares()
		types, n := m.encodeTypes()
		keys, syms := m.encodeKeys(m.First, m.Last)
		if len(types) < 8*n || len(types)%4 != 0 || len(keys) != 8*(int(m.Last)-int(m.First)+1)+4*syms {
			t.Errorf("%d types in %d bytes, %d keysyms in %d", n, len(types), syms, len(keys))
		}
		for group := range byte(5) {
			for sym, s := range m.Strokes(group, group) {
				if _, ok := runeOfSym(sym); !ok && sym != symReturn && sym != symTab || s.Code < m.First || s.Code > m.Last {
					t.Errorf("keysym %#x by %+v", sym, s)
				}
			}
		}
	})
}
