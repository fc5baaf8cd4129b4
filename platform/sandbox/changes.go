package sandbox

import (
	"encoding/binary"
	"slices"
	"unicode/utf16"
)

// changed reads the names of a list of FILE_NOTIFY_INFORMATION, by which Windows tells what changed
// in a folder.
//
//	 0      4        8        12
//	+------+--------+--------+------------------+
//	| next | action | length | name in UTF-16   |
//	| u32  | u32    | u32    | length bytes     |
//	+------+--------+--------+------------------+
func changed(list []byte) (names []string) {
	u32 := binary.LittleEndian.Uint32
	for len(list) >= 12 {
		next, length := u32(list), u32(list[8:])
		if uint64(length) > uint64(len(list)-12) {
			return names
		}
		text := make([]uint16, length/2)
		for i := range text {
			text[i] = binary.LittleEndian.Uint16(list[12+2*i:])
		}
		if end := slices.Index(text, 0); end >= 0 {
			text = text[:end]
		}
		names = append(names, string(utf16.Decode(text)))
		if uint64(next) < 12+uint64(length) || uint64(next) > uint64(len(list)) { // the last, or none
			return names
		}
		list = list[next:]
	}
	return names
}
