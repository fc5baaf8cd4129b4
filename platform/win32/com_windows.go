package win32

import (
	"math"
	"syscall"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	ole32    = windows.NewLazySystemDLL("ole32.dll")
	oleaut32 = windows.NewLazySystemDLL("oleaut32.dll")

	procCoCreateInstance = ole32.NewProc("CoCreateInstance")
	procVariantClear     = oleaut32.NewProc("VariantClear")
	procSysAllocString   = oleaut32.NewProc("SysAllocStringLen")
	procSysFreeString    = oleaut32.NewProc("SysFreeString")
)

// object is the address of a COM object; 0 is none. A caller who gets one from a call owns a
// reference, which release returns.
type object uintptr

// call calls a method of the object's table. Like that of a LazyProc, memory
// behind uintptr(unsafe.Pointer(…)) in args lives and stays in its place until it
// returns.
//
//go:uintptrescapes
func (o object) call(m int, args ...uintptr) error {
	if o == 0 {
		return resultError(methods[m].name, resultNoInterface)
	}
	hr, _, _ := syscall.SyscallN(o.function(m), append([]uintptr{uintptr(o)}, args...)...)
	return resultError(methods[m].name, uint32(hr))
}

// function finds a method: an object begins with the address of its table.
func (o object) function(m int) uintptr {
	table := *at[uintptr](uintptr(o))
	return *at[uintptr](table + methods[m].slot*unsafe.Sizeof(table))
}

func (o object) release() {
	if o != 0 {
		syscall.SyscallN(o.function(unknownRelease), uintptr(o))
	}
}

func (o object) hold() object {
	if o != 0 {
		syscall.SyscallN(o.function(unknownAddRef), uintptr(o))
	}
	return o
}

// guid reads an interface's name as it is written, without braces.
func guid(s string) windows.GUID {
	g, _ := windows.GUIDFromString("{" + s + "}")
	return g
}

// create makes an object of a class that runs in this process.
func create(class, as string) (object, error) {
	const inProcess = 1
	c, i := guid(class), guid(as)
	var o object
	hr, _, _ := procCoCreateInstance.Call(uintptr(unsafe.Pointer(&c)), 0, inProcess, uintptr(unsafe.Pointer(&i)), uintptr(unsafe.Pointer(&o)))
	return o, resultError("CoCreateInstance", uint32(hr))
}

// The kinds of a VARIANT that properties have.
const (
	kindInt    = 3      // VT_I4
	kindFloat  = 5      // VT_R8
	kindText   = 8      // VT_BSTR
	kindBool   = 11     // VT_BOOL
	kindInts   = 0x2003 // VT_ARRAY | VT_I4
	maxInts    = 64
	maxUnits16 = 64 << 10
)

// variant is VARIANT on a 64-bit system: 24 bytes.
type variant struct {
	kind  uint16
	_     [3]uint16
	value uint64
	_     uint64
}

// array is the head of a SAFEARRAY of one dimension on a 64-bit system.
type array struct {
	dimensions, features uint16
	size                 uint32 // of an element, in bytes
	locks                uint32
	_                    uint32
	data                 uintptr
	elements             uint32
	least                int32
}

// clear frees what the variant holds.
func (v *variant) clear() { procVariantClear.Call(uintptr(unsafe.Pointer(v))) }

func (v *variant) int() int32 {
	if v.kind != kindInt {
		return 0
	}
	return int32(uint32(v.value))
}

func (v *variant) bool() bool { return v.kind == kindBool && uint16(v.value) != 0 }

func (v *variant) float() float64 {
	if v.kind != kindFloat {
		return 0
	}
	return math.Float64frombits(v.value)
}

func (v *variant) text(most int) string {
	if v.kind != kindText {
		return ""
	}
	return textOf(uintptr(v.value), most)
}

// ints reads a list of numbers, at most maxInts of them.
func (v *variant) ints() []int32 {
	if v.kind != kindInts || v.value == 0 {
		return nil
	}
	a := at[array](uintptr(v.value))
	if a.dimensions != 1 || a.size != 4 || a.data == 0 {
		return nil
	}
	return append([]int32(nil), unsafe.Slice(at[int32](a.data), min(a.elements, maxInts))...)
}

// textOf reads at most most UTF-16 units of a BSTR, whose length in bytes stands
// before its first unit.
func textOf(b uintptr, most int) string {
	if b == 0 {
		return ""
	}
	n := int(*at[uint32](b - 4)) / 2
	return string(utf16.Decode(unsafe.Slice(at[uint16](b), min(n, most))))
}

// withText calls do with s as a BSTR.
func withText(s string, do func(b uintptr) error) error {
	units := utf16.Encode([]rune(s))
	b, _, errno := procSysAllocString.Call(uintptr(unsafe.Pointer(unsafe.SliceData(units))), uintptr(len(units)))
	if b == 0 {
		return failed("SysAllocStringLen", errno)
	}
	defer procSysFreeString.Call(b)
	return do(b)
}

// taken reads a BSTR that a call handed over, and frees it.
func taken(b uintptr, most int) string {
	if b == 0 {
		return ""
	}
	defer procSysFreeString.Call(b)
	return textOf(b, most)
}
