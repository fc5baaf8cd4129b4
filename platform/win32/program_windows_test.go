package win32_test

import (
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A program of its own process that the suite of all desktops works on: a window
// with a text field, a button and a label, made by calls that the package under test
// does not use. It is this test's binary, started once more with programEnv set to
// the window's title.

const programEnv = "HANDRAIL_TEST_WINDOW"

// The answers of its window, beyond those of every window.
const (
	wmApp      = 0x8000
	askClicks  = wmApp + 1 // how often the button was pressed
	askFocus   = wmApp + 2 // comes to the front; the field gets the keyboard and is emptied
	askCopy    = wmApp + 3 // puts the text of the file in programEnv+"_CLIP" on the clipboard; 1 if it did
	askPasted  = wmApp + 4 // writes the clipboard's text into that file; 0 if there is none
	entryID    = 1
	buttonID   = 2
	wmGetText  = 0x000D
	wmCommand  = 0x0111
	wmDestroy  = 0x0002
	unicodeTxt = 13
)

var (
	user   = windows.NewLazySystemDLL("user32.dll")
	kernel = windows.NewLazySystemDLL("kernel32.dll")
)

func TestMain(m *testing.M) {
	if title := os.Getenv(programEnv); title != "" {
		os.Exit(program(title))
	}
	os.Exit(m.Run())
}

func wide(s string) uintptr {
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		panic(err)
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

// kept are the texts that Windows was given the addresses of.
var kept []*uint16

// program shows the window until it is closed.
func program(title string) int {
	runtime.LockOSThread()
	var entry, clicks uintptr
	procedure := windows.NewCallback(func(h, message, w, l uintptr) uintptr {
		switch message {
		case wmCommand:
			if w&0xFFFF == buttonID && w>>16 == 0 {
				clicks++
			}
		case askClicks:
			return clicks
		case askFocus:
			user.NewProc("SetForegroundWindow").Call(h)
			user.NewProc("SetFocus").Call(entry)
			user.NewProc("SetWindowTextW").Call(entry, wide(""))
			return 1
		case askCopy:
			return copyFile(h, os.Getenv(programEnv+"_CLIP"))
		case askPasted:
			return pasteFile(h, os.Getenv(programEnv+"_CLIP"))
		case wmDestroy:
			user.NewProc("PostQuitMessage").Call(0)
			return 0
		}
		r, _, _ := user.NewProc("DefWindowProcW").Call(h, message, w, l)
		return r
	})
	class := struct {
		size, style                        uint32
		procedure                          uintptr
		classExtra, windowExtra            int32
		instance, icon, cursor, background uintptr
		menu, name, small                  uintptr
	}{procedure: procedure, name: wide("HandrailTestWindow"), background: 16}
	class.size = uint32(unsafe.Sizeof(class))
	user.NewProc("RegisterClassExW").Call(uintptr(unsafe.Pointer(&class)))
	create := func(class, text string, style, x, y, width, height, parent, id uintptr) uintptr {
		h, _, _ := user.NewProc("CreateWindowExW").Call(0, wide(class), wide(text), style, x, y, width, height, parent, id, 0, 0)
		return h
	}
	const overlapped, visible, child, border, scrolls = 0x00CF0000, 0x10000000, 0x40000000, 0x00800000, 0x80
	top := create("HandrailTestWindow", title, overlapped|visible, 120, 90, 460, 260, 0, 0)
	entry = create("EDIT", "", child|visible|border|scrolls, 20, 20, 400, 30, top, entryID)
	create("BUTTON", "button", child|visible, 20, 70, 140, 36, top, buttonID)
	create("STATIC", "label", child|visible, 20, 130, 200, 24, top, 3)
	if top == 0 || entry == 0 {
		return 1
	}
	var message [48]byte
	for {
		r, _, _ := user.NewProc("GetMessageW").Call(uintptr(unsafe.Pointer(&message)), 0, 0, 0)
		if int32(r) <= 0 {
			return 0
		}
		user.NewProc("TranslateMessage").Call(uintptr(unsafe.Pointer(&message)))
		user.NewProc("DispatchMessageW").Call(uintptr(unsafe.Pointer(&message)))
	}
}

// atAddress reads memory that Windows lent.
func atAddress(address uintptr, units int) []uint16 {
	return unsafe.Slice(*(**uint16)(unsafe.Pointer(&address)), units)
}

func copyFile(h uintptr, file string) uintptr {
	text, err := os.ReadFile(file)
	units, bad := windows.UTF16FromString(string(text))
	if opened, _, _ := user.NewProc("OpenClipboard").Call(h); err != nil || bad != nil || opened == 0 {
		return 0
	}
	defer user.NewProc("CloseClipboard").Call()
	user.NewProc("EmptyClipboard").Call()
	const moveable = 2
	memory, _, _ := kernel.NewProc("GlobalAlloc").Call(moveable, uintptr(2*len(units)))
	address, _, _ := kernel.NewProc("GlobalLock").Call(memory)
	if address == 0 {
		return 0
	}
	copy(atAddress(address, len(units)), units)
	kernel.NewProc("GlobalUnlock").Call(memory)
	if did, _, _ := user.NewProc("SetClipboardData").Call(unicodeTxt, memory); did == 0 {
		return 0
	}
	return 1
}

func pasteFile(h uintptr, file string) uintptr {
	if opened, _, _ := user.NewProc("OpenClipboard").Call(h); opened == 0 {
		return 0
	}
	defer user.NewProc("CloseClipboard").Call()
	memory, _, _ := user.NewProc("GetClipboardData").Call(unicodeTxt)
	address, _, _ := kernel.NewProc("GlobalLock").Call(memory)
	if memory == 0 || address == 0 {
		return 0
	}
	defer kernel.NewProc("GlobalUnlock").Call(memory)
	size, _, _ := kernel.NewProc("GlobalSize").Call(memory)
	text := windows.UTF16ToString(atAddress(address, int(size/2)))
	if os.WriteFile(file, []byte(text), 0o600) != nil {
		return 0
	}
	return 1
}
