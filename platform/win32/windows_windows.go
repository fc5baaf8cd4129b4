package win32

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// Windows lists and arranges the session's windows. It implements
// platform.Windows.
type Windows struct{}

const refPrefix = "hwnd:"

func refOf(h windows.HWND) string { return refPrefix + "0x" + strconv.FormatUint(uint64(h), 16) }

// window finds the window of ref; ErrGone if there is none, or if nobody sees it
// any more: a program hides a window before it destroys it.
func window(ref string) (windows.HWND, error) {
	digits, ok := strings.CutPrefix(ref, refPrefix)
	n, err := strconv.ParseUint(digits, 0, 64)
	if !ok || err != nil {
		return 0, platform.ErrGone
	}
	if is, _, _ := procIsWindow.Call(uintptr(n)); is == 0 || !windows.IsWindowVisible(windows.HWND(n)) {
		return 0, platform.ErrGone
	}
	return windows.HWND(n), nil
}

// listing collects what the one callback is told, one enumeration at a time.
var listing struct {
	sync.Mutex
	found []windows.HWND
}

var listCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(h windows.HWND, _ uintptr) uintptr {
		listing.found = append(listing.found, h)
		return 1
	})
})

// maxWindows bounds a list: a program can open as many as it likes.
const maxWindows = 4096

// topLevels returns every window that is in none, the top one first.
func topLevels() ([]windows.HWND, error) {
	listing.Lock()
	defer listing.Unlock()
	listing.found = nil
	if err := windows.EnumWindows(listCallback(), nil); err != nil {
		return nil, fmt.Errorf("win32: EnumWindows: %w", err)
	}
	return listing.found, nil
}

// List returns the windows that a person could see, the top one first.
func (Windows) List(ctx context.Context) ([]platform.Window, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := topLevels()
	if err != nil {
		return nil, err
	}
	front := windows.GetForegroundWindow()
	apps := map[uint32]string{}
	var all []platform.Window
	for _, h := range found {
		if len(all) == maxWindows {
			break
		}
		w, ok := describe(h, apps)
		if !ok {
			continue
		}
		w.Focused, w.Z = h == front, len(all)
		all = append(all, w)
	}
	return all, nil
}

const (
	styleIndex, exStyleIndex = ^uintptr(15), ^uintptr(19) // GWL_STYLE = -16, GWL_EXSTYLE = -20
	exToolWindow             = 0x00000080
	exNoActivate             = 0x08000000
	dwmFrameBounds           = 9
	dwmCloaked               = 14
)

// cloaked reports a window that is on another virtual desktop, or of a suspended
// application.
func cloaked(h windows.HWND) bool {
	var how uint32
	return windows.DwmGetWindowAttribute(h, dwmCloaked, unsafe.Pointer(&how), 4) == nil && how != 0
}

func describe(h windows.HWND, apps map[uint32]string) (platform.Window, bool) {
	if !windows.IsWindowVisible(h) {
		return platform.Window{}, false
	}
	if cloaked(h) {
		return platform.Window{}, false
	}
	var title [512]uint16
	// Unlike GetWindowText it never waits for the application.
	procInternalGetText.Call(uintptr(h), uintptr(unsafe.Pointer(&title)), uintptr(len(title)))
	ex, _, _ := procGetWindowLong.Call(uintptr(h), exStyleIndex)
	w := platform.Window{Ref: refOf(h), Title: text16(title[:])}
	if w.Title == "" && ex&(exToolWindow|exNoActivate) != 0 {
		return platform.Window{}, false
	}
	w.Bounds, w.Content = frameOf(h)
	iconic, _, _ := procIsIconic.Call(uintptr(h))
	w.Minimized = iconic != 0
	if w.Bounds.Empty() && !w.Minimized {
		return platform.Window{}, false
	}
	var pid uint32
	windows.GetWindowThreadProcessId(h, &pid)
	w.PID = int(pid)
	name, ok := apps[pid]
	if !ok {
		name = programOf(pid)
		apps[pid] = name
	}
	w.App = name
	prop, _, _ := procGetProp.Call(uintptr(h), uintptr(unsafe.Pointer(ownProperty())))
	w.Own = w.PID == os.Getpid() || prop != 0
	return w, true
}

// ownProperty is the name of the property by which windows of this program that
// another of its processes opened are known.
var ownProperty = sync.OnceValue(func() *uint16 {
	name, _ := windows.UTF16PtrFromString("handrail.own")
	return name
})

// frameOf returns a window as it is seen, without the frame that Windows draws
// around it for the mouse, and its content.
func frameOf(h windows.HWND) (bounds, content platform.Rect) {
	var r rect
	if windows.DwmGetWindowAttribute(h, dwmFrameBounds, unsafe.Pointer(&r), uint32(unsafe.Sizeof(r))) != nil || r.right <= r.left {
		procGetWindowRect.Call(uintptr(h), uintptr(unsafe.Pointer(&r)))
	}
	bounds = rectOf(r)
	var client rect
	var origin point
	procGetClientRect.Call(uintptr(h), uintptr(unsafe.Pointer(&client)))
	procClientToScreen.Call(uintptr(h), uintptr(unsafe.Pointer(&origin)))
	content = rectOf(client)
	content.X, content.Y = int(origin.x), int(origin.y)
	return bounds, content
}

// programOf names a process by its program's file, without the ending.
func programOf(pid uint32) string {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return ""
	}
	defer windows.CloseHandle(h)
	var path [1024]uint16
	n := uint32(len(path))
	if windows.QueryFullProcessImageName(h, 0, &path[0], &n) != nil {
		return ""
	}
	base := filepath.Base(windows.UTF16ToString(path[:n]))
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// Activate brings a window to the front and gives it the keyboard.
func (Windows) Activate(ctx context.Context, ref string) error {
	h, err := window(ref)
	if err != nil {
		return err
	}
	if iconic, _, _ := procIsIconic.Call(uintptr(h)); iconic != 0 {
		const restore = 9
		procShowWindowAsync.Call(uintptr(h), restore)
	}
	procSetForegroundWindow.Call(uintptr(h))
	if waitUntil(ctx, func() bool { return windows.GetForegroundWindow() == h }) {
		return nil
	}
	// Windows hands the front only to the program that has it: borrow the right of the thread that
	// does.
	theirs, _ := windows.GetWindowThreadProcessId(windows.GetForegroundWindow(), nil)
	err = onThread(func() error {
		mine, _, _ := procGetCurrentThreadID.Call()
		if theirs != 0 {
			procAttachThreadInput.Call(mine, uintptr(theirs), 1)
			defer procAttachThreadInput.Call(mine, uintptr(theirs), 0)
		}
		procSetForegroundWindow.Call(uintptr(h))
		return nil
	})
	if err == nil && !waitUntil(ctx, func() bool { return windows.GetForegroundWindow() == h }) {
		if _, gone := window(ref); gone != nil {
			return gone
		}
		return fmt.Errorf("win32: Windows did not give that window the front: %w", platform.ErrCannot)
	}
	return err
}

// waitUntil looks until done says so, for half a second at most: Windows has no
// event for what is waited for here.
func waitUntil(ctx context.Context, done func() bool) bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		if done() {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return done()
}

// Place moves and resizes a window as it is seen.
func (Windows) Place(_ context.Context, ref string, to platform.Rect) error {
	h, err := window(ref)
	if err != nil {
		return err
	}
	// The frame for the mouse is counted by SetWindowPos, but not seen.
	seen, _ := frameOf(h)
	var r rect
	procGetWindowRect.Call(uintptr(h), uintptr(unsafe.Pointer(&r)))
	whole := rectOf(r)
	x, y := to.X-(seen.X-whole.X), to.Y-(seen.Y-whole.Y)
	const noZ, noActivate, async = 0x0004, 0x0010, 0x4000
	ok, _, errno := procSetWindowPos.Call(uintptr(h), 0, uintptr(x), uintptr(y),
		uintptr(to.Width+whole.Width-seen.Width), uintptr(to.Height+whole.Height-seen.Height), noZ|noActivate|async)
	if ok == 0 {
		return failed("SetWindowPos", errno)
	}
	return nil
}

// Minimize minimises a window.
func (Windows) Minimize(_ context.Context, ref string) error {
	h, err := window(ref)
	if err != nil {
		return err
	}
	const minimize = 6
	procShowWindowAsync.Call(uintptr(h), minimize)
	return nil
}

// Close asks a window to close.
func (Windows) Close(_ context.Context, ref string) error {
	h, err := window(ref)
	if err != nil {
		return err
	}
	const wmClose = 0x0010
	if ok, _, errno := procPostMessage.Call(uintptr(h), wmClose, 0, 0); ok == 0 {
		if errors.Is(errno, windows.ERROR_INVALID_WINDOW_HANDLE) {
			return platform.ErrGone
		}
		return failed("PostMessage", errno)
	}
	return nil
}

// changes are those who wait for a change of any window.
var changes struct {
	sync.Mutex
	all map[chan struct{}]bool
}

var changeCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(_, _ uintptr, h windows.HWND, object, child int32, _, _ uint32) uintptr {
		if h == 0 || object != 0 || child != 0 {
			return 0
		}
		changes.Lock()
		defer changes.Unlock()
		for c := range changes.all {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		return 0
	})
})

// Changes tells that windows changed.
func (Windows) Changes(ctx context.Context) (<-chan struct{}, error) {
	c := make(chan struct{}, 1)
	var set []uintptr
	err := loop(ctx, func() error {
		// Out of context: events are messages of this thread, no code in others.
		for _, events := range [][2]uintptr{{0x0003, 0x0003}, {0x0016, 0x0017}, {0x8000, 0x8004}, {0x800B, 0x800C}} {
			h, _, errno := procSetWinEventHook.Call(events[0], events[1], 0, changeCallback(), 0, 0, 0)
			if h == 0 {
				return failed("SetWinEventHook", errno)
			}
			set = append(set, h)
		}
		changes.Lock()
		defer changes.Unlock()
		if changes.all == nil {
			changes.all = map[chan struct{}]bool{}
		}
		changes.all[c] = true
		return nil
	}, func() {
		changes.Lock()
		delete(changes.all, c)
		changes.Unlock()
		for _, h := range set {
			procUnhookWinEvent.Call(h)
		}
		close(c)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}
