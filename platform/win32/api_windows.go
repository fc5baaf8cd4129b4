package win32

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	user32   = windows.NewLazySystemDLL("user32.dll")
	gdi32    = windows.NewLazySystemDLL("gdi32.dll")
	kernel32 = windows.NewLazySystemDLL("kernel32.dll")
	shcore   = windows.NewLazySystemDLL("shcore.dll")

	procSetProcessDpiAwarenessContext = user32.NewProc("SetProcessDpiAwarenessContext")
	procGetSystemMetrics              = user32.NewProc("GetSystemMetrics")
	procEnumDisplayMonitors           = user32.NewProc("EnumDisplayMonitors")
	procGetMonitorInfo                = user32.NewProc("GetMonitorInfoW")
	procGetDpiForMonitor              = shcore.NewProc("GetDpiForMonitor")
	procGetDC                         = user32.NewProc("GetDC")
	procReleaseDC                     = user32.NewProc("ReleaseDC")
	procCreateCompatibleDC            = gdi32.NewProc("CreateCompatibleDC")
	procDeleteDC                      = gdi32.NewProc("DeleteDC")
	procCreateDIBSection              = gdi32.NewProc("CreateDIBSection")
	procSelectObject                  = gdi32.NewProc("SelectObject")
	procDeleteObject                  = gdi32.NewProc("DeleteObject")
	procBitBlt                        = gdi32.NewProc("BitBlt")
	procGdiFlush                      = gdi32.NewProc("GdiFlush")
	procGetCursorInfo                 = user32.NewProc("GetCursorInfo")
	procGetIconInfo                   = user32.NewProc("GetIconInfo")
	procDrawIconEx                    = user32.NewProc("DrawIconEx")

	procSendInput    = user32.NewProc("SendInput")
	procGetCursorPos = user32.NewProc("GetCursorPos")
	procSetCursorPos = user32.NewProc("SetCursorPos")
	procVkKeyScan    = user32.NewProc("VkKeyScanW")

	procSetWindowsHookEx    = user32.NewProc("SetWindowsHookExW")
	procUnhookWindowsHookEx = user32.NewProc("UnhookWindowsHookEx")
	procCallNextHookEx      = user32.NewProc("CallNextHookEx")
	procGetMessage          = user32.NewProc("GetMessageW")
	procPeekMessage         = user32.NewProc("PeekMessageW")
	procPostThreadMessage   = user32.NewProc("PostThreadMessageW")
	procSetWinEventHook     = user32.NewProc("SetWinEventHook")
	procUnhookWinEvent      = user32.NewProc("UnhookWinEvent")

	procGetWindowText       = user32.NewProc("GetWindowTextW")
	procInternalGetText     = user32.NewProc("InternalGetWindowText")
	procGetWindowRect       = user32.NewProc("GetWindowRect")
	procGetClientRect       = user32.NewProc("GetClientRect")
	procClientToScreen      = user32.NewProc("ClientToScreen")
	procGetWindow           = user32.NewProc("GetWindow")
	procIsHungAppWindow     = user32.NewProc("IsHungAppWindow")
	procIsIconic            = user32.NewProc("IsIconic")
	procIsWindow            = user32.NewProc("IsWindow")
	procGetWindowLong       = user32.NewProc("GetWindowLongW")
	procGetProp             = user32.NewProc("GetPropW")
	procShowWindowAsync     = user32.NewProc("ShowWindowAsync")
	procSetForegroundWindow = user32.NewProc("SetForegroundWindow")
	procAttachThreadInput   = user32.NewProc("AttachThreadInput")
	procSetWindowPos        = user32.NewProc("SetWindowPos")
	procPostMessage         = user32.NewProc("PostMessageW")

	procOpenClipboard       = user32.NewProc("OpenClipboard")
	procCloseClipboard      = user32.NewProc("CloseClipboard")
	procEmptyClipboard      = user32.NewProc("EmptyClipboard")
	procGetClipboardData    = user32.NewProc("GetClipboardData")
	procIsFormatAvailable   = user32.NewProc("IsClipboardFormatAvailable")
	procGlobalLock          = kernel32.NewProc("GlobalLock")
	procGlobalUnlock        = kernel32.NewProc("GlobalUnlock")
	procGlobalSize          = kernel32.NewProc("GlobalSize")
	procOpenInputDesktop    = user32.NewProc("OpenInputDesktop")
	procCloseDesktop        = user32.NewProc("CloseDesktop")
	procGetUserObjectInfo   = user32.NewProc("GetUserObjectInformationW")
	procGetProcessWinSta    = user32.NewProc("GetProcessWindowStation")
	procGetCurrentThreadID  = kernel32.NewProc("GetCurrentThreadId")
	procGetLayeredAttribute = user32.NewProc("GetLayeredWindowAttributes")
)

// rect, point and message are RECT, POINT and MSG.
type (
	rect    struct{ left, top, right, bottom int32 }
	point   struct{ x, y int32 }
	message struct {
		hwnd   windows.HWND
		msg    uint32
		_      uint32
		wParam uintptr
		lParam uintptr
		time   uint32
		at     point
		_      uint32
	}
)

// failed makes an error of a call that returned none's value; errno may say
// nothing.
func failed(what string, errno error) error {
	if e, ok := errno.(syscall.Errno); ok && e == 0 {
		return fmt.Errorf("win32: %s failed", what)
	}
	return fmt.Errorf("win32: %s: %w", what, errno)
}

// at reads the structure that an address handed over by the system points to. The
// address is memory of the system's, which the collector never moves.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// text16 reads UTF-16 up to its end.
func text16(b []uint16) string { return windows.UTF16ToString(b) }
