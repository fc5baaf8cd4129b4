package win32

import (
	"context"
	"os"
	"sync"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// events are those who wait for changes of elements. Windows has two kinds of
// events: UI Automation's, for which every application would have to be asked to
// tell about its whole tree, and those of accessibility before it, which
// applications publish anyway and UI Automation publishes for those that know only
// itself. These are the latter: they tell what happened in which application, not
// at which element.
var events struct {
	sync.Mutex
	all map[chan platform.ElementEvent]bool
}

var eventCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(_, event uintptr, h windows.HWND, object, _ int32, _, _ uint32) uintptr {
		kind := eventKind(uint32(event), object)
		if kind == "" {
			return 0
		}
		var pid uint32 // 0 if the window is gone already
		windows.GetWindowThreadProcessId(h, &pid)
		if int(pid) == os.Getpid() {
			return 0
		}
		e := platform.ElementEvent{PID: int(pid), Kind: kind}
		events.Lock()
		defer events.Unlock()
		for c := range events.all {
			hand(c, e)
		}
		return 0
	})
})

// Events tells of changes until ctx ends. They name the application, not the
// element.
func (a *Accessibility) Events(ctx context.Context) (<-chan platform.ElementEvent, error) {
	c := make(chan platform.ElementEvent, 256)
	var set []uintptr
	err := loop(ctx, func() error {
		for _, r := range eventRanges {
			h, _, errno := procSetWinEventHook.Call(r[0], r[1], 0, eventCallback(), 0, 0, 0)
			if h == 0 {
				return failed("SetWinEventHook", errno)
			}
			set = append(set, h)
		}
		events.Lock()
		defer events.Unlock()
		if events.all == nil {
			events.all = map[chan platform.ElementEvent]bool{}
		}
		events.all[c] = true
		return nil
	}, func() {
		events.Lock()
		delete(events.all, c)
		events.Unlock()
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
