package win32

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// AwareOfScale makes this process see physical pixels on every display. It has to
// come before anything else of this package; a second time it does nothing.
func AwareOfScale() {
	const perMonitorV2 = ^uintptr(3) // DPI_AWARENESS_CONTEXT_PER_MONITOR_AWARE_V2 = -4
	if procSetProcessDpiAwarenessContext.Find() == nil {
		procSetProcessDpiAwarenessContext.Call(perMonitorV2)
	}
}

// Screen reads the pixels of the session's displays by GDI. It implements
// platform.Grabber; Windows tells nothing about damage this way, so Damage is nil.
type Screen struct {
	mu    sync.Mutex
	epoch uint64
	last  []platform.Display

	// One drawing surface is kept from one grab to the next.
	dc, bitmap, was uintptr
	bits            []byte
	width, height   int
}

// NewScreen returns a Screen. Close frees what it keeps.
func NewScreen() *Screen { return &Screen{} }

// monitors collects what the one callback is told, one enumeration at a time:
// callbacks of the system are never freed.
var monitors struct {
	sync.Mutex
	found []platform.Display
}

var monitorCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(monitor, _, _, _ uintptr) uintptr {
		var info struct {
			size          uint32
			monitor, work rect
			flags         uint32
			device        [32]uint16
		}
		info.size = uint32(unsafe.Sizeof(info))
		if ok, _, _ := procGetMonitorInfo.Call(monitor, uintptr(unsafe.Pointer(&info))); ok == 0 {
			return 1
		}
		name := text16(info.device[:])
		monitors.found = append(monitors.found, platform.Display{
			ID: name, Name: name, Primary: info.flags&1 != 0, Bounds: rectOf(info.monitor), Scale: scaleOf(monitor),
		})
		return 1
	})
})

func rectOf(r rect) platform.Rect {
	return platform.Rect{X: int(r.left), Y: int(r.top), Width: int(r.right - r.left), Height: int(r.bottom - r.top)}
}

func scaleOf(monitor uintptr) float64 {
	if procGetDpiForMonitor.Find() != nil {
		return 1
	}
	var x, y uint32
	const effective = 0
	if hr, _, _ := procGetDpiForMonitor.Call(monitor, effective, uintptr(unsafe.Pointer(&x)), uintptr(unsafe.Pointer(&y))); hr != 0 || x == 0 {
		return 1
	}
	return float64(x) / 96
}

// Layout returns the displays.
func (s *Screen) Layout(ctx context.Context) (platform.Layout, error) {
	if err := ctx.Err(); err != nil {
		return platform.Layout{}, err
	}
	monitors.Lock()
	monitors.found = nil
	ok, _, errno := procEnumDisplayMonitors.Call(0, 0, monitorCallback(), 0)
	found := monitors.found
	monitors.Unlock()
	if ok == 0 || len(found) == 0 {
		return platform.Layout{}, failed("EnumDisplayMonitors", errno)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(found, s.last) {
		s.epoch++
		s.last = found
	}
	return platform.Layout{Epoch: s.epoch, Displays: slices.Clone(found)}, nil
}

type bitmapInfo struct {
	size          uint32
	width, height int32
	planes, bits  uint16
	compression   uint32
	imageSize     uint32
	perX, perY    int32
	used, needed  uint32
	_             uint32 // one entry of a colour table
}

// surfaceLocked makes the drawing surface fit.
func (s *Screen) surfaceLocked(width, height int) error {
	if s.dc != 0 && s.width == width && s.height == height {
		return nil
	}
	s.freeLocked()
	dc, _, errno := procCreateCompatibleDC.Call(0)
	if dc == 0 {
		return failed("CreateCompatibleDC", errno)
	}
	// A negative height means that the top row comes first.
	info := bitmapInfo{size: 40, width: int32(width), height: -int32(height), planes: 1, bits: 32}
	var memory uintptr
	bitmap, _, errno := procCreateDIBSection.Call(dc, uintptr(unsafe.Pointer(&info)), 0, uintptr(unsafe.Pointer(&memory)), 0, 0)
	if bitmap == 0 || memory == 0 {
		procDeleteDC.Call(dc)
		return failed("CreateDIBSection", errno)
	}
	was, _, _ := procSelectObject.Call(dc, bitmap)
	s.dc, s.bitmap, s.was, s.width, s.height = dc, bitmap, was, width, height
	s.bits = unsafe.Slice(at[byte](memory), width*height*4)
	return nil
}

func (s *Screen) freeLocked() {
	if s.dc == 0 {
		return
	}
	procSelectObject.Call(s.dc, s.was)
	procDeleteObject.Call(s.bitmap)
	procDeleteDC.Call(s.dc)
	s.dc, s.bits = 0, nil
}

// Grab copies the pixels of area.
func (s *Screen) Grab(_ context.Context, area platform.Rect, cursor bool, pix []byte) error {
	if area.Empty() || len(pix) < area.Width*area.Height*4 {
		return failed("Grab: the buffer is too small for the area; it", windows.ERROR_INSUFFICIENT_BUFFER)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.surfaceLocked(area.Width, area.Height); err != nil {
		return err
	}
	screen, _, errno := procGetDC.Call(0)
	if screen == 0 {
		return failed("GetDC", errno)
	}
	defer procReleaseDC.Call(0, screen)
	const copyLayered = 0x00CC0020 | 0x40000000 // SRCCOPY | CAPTUREBLT
	ok, _, errno := procBitBlt.Call(s.dc, 0, 0, uintptr(area.Width), uintptr(area.Height), screen, uintptr(area.X), uintptr(area.Y),
		copyLayered)
	if ok == 0 {
		// The secure desktop (UAC, the lock screen) lets nobody look.
		return &platform.MissingError{
			What: "Windows gives no pixels now: the session is locked or shows a secure prompt.", Fix: "Unlock it, or answer the prompt.",
		}
	}
	if cursor {
		s.drawCursorLocked(area)
	}
	procGdiFlush.Call()
	copy(pix, s.bits)
	return nil
}

func (s *Screen) drawCursorLocked(area platform.Rect) {
	var info struct {
		size, flags uint32
		cursor      uintptr
		at          point
	}
	info.size = uint32(unsafe.Sizeof(info))
	const showing = 1
	if ok, _, _ := procGetCursorInfo.Call(uintptr(unsafe.Pointer(&info))); ok == 0 || info.flags != showing {
		return
	}
	var icon struct {
		isIcon      int32
		hotX, hotY  uint32
		mask, color uintptr
	}
	if ok, _, _ := procGetIconInfo.Call(info.cursor, uintptr(unsafe.Pointer(&icon))); ok == 0 {
		return
	}
	for _, bitmap := range []uintptr{icon.mask, icon.color} {
		if bitmap != 0 {
			procDeleteObject.Call(bitmap)
		}
	}
	x, y := int(info.at.x)-int(icon.hotX)-area.X, int(info.at.y)-int(icon.hotY)-area.Y
	const normal = 3
	procDrawIconEx.Call(s.dc, uintptr(x), uintptr(y), info.cursor, 0, 0, 0, 0, normal)
}

// Damage is nil: GDI does not tell.
func (s *Screen) Damage() <-chan platform.Rect { return nil }

// Close frees the drawing surface.
func (s *Screen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freeLocked()
	return nil
}

// Locked says why the session shows no desktop of the person's now, "" if it does.
func Locked() string {
	const readObjects = 1
	h, _, _ := procOpenInputDesktop.Call(0, 0, readObjects)
	if h == 0 {
		return "The session is locked or shows a secure prompt of Windows."
	}
	defer procCloseDesktop.Call(h)
	var name [64]uint16
	var need uint32
	const uoiName = 2
	ok, _, _ := procGetUserObjectInfo.Call(h, uoiName, uintptr(unsafe.Pointer(&name)), unsafe.Sizeof(name), uintptr(unsafe.Pointer(&need)))
	if n := text16(name[:]); ok != 0 && n != "" && n != "Default" {
		return "The session shows the desktop \"" + n + "\", not the person's."
	}
	return ""
}

// Visible reports whether this process has a desktop that a person can see: a
// service of session 0 has none.
func Visible() bool {
	station, _, _ := procGetProcessWinSta.Call()
	if station == 0 {
		return false
	}
	var flags struct {
		inherit, reserved int32
		flags             uint32
	}
	var need uint32
	const uoiFlags, visible = 1, 1
	ok, _, _ := procGetUserObjectInfo.Call(station, uoiFlags, uintptr(unsafe.Pointer(&flags)), unsafe.Sizeof(flags),
		uintptr(unsafe.Pointer(&need)))
	return ok == 0 || flags.flags&visible != 0
}
