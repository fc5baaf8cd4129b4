package wine

import "encoding/binary"

// forwarder is a library (PE32+) without code that hands one function's callers on
// to another library's: "library.function". Wine 8 lacks one that Go needs.
func forwarder(name, function, target string) []byte {
	const (
		at      = 0x1000 // where the one section is loaded
		headers = 0x200
		size    = 0x200
	)
	var section [size]byte
	put := func(offset int, v uint32) { binary.LittleEndian.PutUint32(section[offset:], v) }
	text := func(offset int, s string) uint32 { copy(section[offset:], s); return at + uint32(offset) }
	// The export directory; an address within it is the name of a forwarded function.
	put(12, text(0x80, name))
	put(16, 1) // the first ordinal
	put(20, 1) // functions
	put(24, 1) // names
	put(28, at+40)
	put(32, at+44)
	put(36, at+48)
	put(40, text(0x100, target))
	put(44, text(0xC0, function))

	file := make([]byte, headers+size)
	copy(file, "MZ")
	u16 := func(offset int, v uint16) { binary.LittleEndian.PutUint16(file[offset:], v) }
	u32 := func(offset int, v uint32) { binary.LittleEndian.PutUint32(file[offset:], v) }
	const pe, optional = 0x40, 0x40 + 24
	u32(0x3C, pe)
	copy(file[pe:], "PE\x00\x00")
	u16(pe+4, 0x8664)         // x86-64
	u16(pe+6, 1)              // sections
	u16(pe+20, 240)           // size of the optional header
	u16(pe+22, 0x2022)        // executable, large addresses, a library
	u16(optional, 0x20B)      // PE32+
	u32(optional+8, size)     // initialised data
	u32(optional+24, 0x10000) // image base, far from others' by its upper half
	u32(optional+28, 1)
	u32(optional+32, 0x1000) // alignment in memory
	u32(optional+36, 0x200)  // and in the file
	u16(optional+40, 6)      // system version
	u16(optional+48, 6)      // subsystem version
	u32(optional+56, 0x2000) // size of the image
	u32(optional+60, headers)
	u16(optional+68, 3)      // console
	u16(optional+70, 0x0140) // may be moved, no execution of data
	u32(optional+108, 16)    // directories
	u32(optional+112, at)    // exports
	u32(optional+116, 0x180)
	const header = optional + 240
	copy(file[header:], ".edata")
	u32(header+8, size)
	u32(header+12, at)
	u32(header+16, size)
	u32(header+20, headers)
	u32(header+36, 0x40000040) // initialised data, readable
	copy(file[headers:], section[:])
	return file
}
