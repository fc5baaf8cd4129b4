package sandbox

import (
	"encoding/binary"
	"slices"
	"testing"
	"unicode/utf16"
)

// listed is a list of changes as Windows writes it: each entry begins at a multiple of four bytes.
func listed(names ...string) (list []byte) {
	for i, name := range names {
		text := utf16.Encode([]rune(name))
		entry := make([]byte, (12+2*len(text)+3)/4*4)
		if i < len(names)-1 {
			binary.LittleEndian.PutUint32(entry, uint32(len(entry)))
		}
		binary.LittleEndian.PutUint32(entry[4:], 3)
		binary.LittleEndian.PutUint32(entry[8:], uint32(2*len(text)))
		for j, unit := range text {
			binary.LittleEndian.PutUint16(entry[12+2*j:], unit)
		}
		list = append(list, entry...)
	}
	return list
}

func TestChanged(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b.txt"}, {`folder\ä`, "🙂", "c"}} {
		if got := changed(listed(names...)); !slices.Equal(got, names) {
			t.Errorf("%q, want %q", got, names)
		}
	}
	for name, list := range map[string][]byte{"nothing": nil, "a head alone": listed("a")[:12], "a name that is cut": listed("abc")[:14]} {
		if got := changed(list); got != nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func FuzzChanged(f *testing.F) {
	f.Add(listed("a"))
	f.Add(listed("a", "b"))
	f.Add([]byte{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // the next one begins within it
	f.Fuzz(func(t *testing.T, list []byte) {
		names := changed(list)
		if len(names)*12 > len(list) {
			t.Errorf("%d names of %d bytes", len(names), len(list))
		}
		for _, name := range names {
			if len(name) > 3*len(list) {
				t.Errorf("a name of %d bytes in %d", len(name), len(list))
			}
		}
	})
}
