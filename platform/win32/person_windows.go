package win32

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/windows"

	"github.com/handrail-dev/handrail/platform"
)

// Person tells a person's input from ours by the flag that Windows gives events
// which a program made. It implements platform.Person.
type Person struct{}

// watcher is one Watch.
type watcher struct {
	touched func(time.Time)
	stop    func()
	mods    []uint16
	last    uint16
}

var hooks struct {
	sync.Mutex
	all  map[*watcher]bool
	down map[uint16]bool // keys that a person holds
}

const (
	hookKeyboard, hookMouse = 13, 14
	injectedKey             = 0x10 // LLKHF_INJECTED
	injectedMouse           = 0x01 // LLMHF_INJECTED
	keyReleased             = 0x80 // LLKHF_UP
	wmMouseMove             = 0x0200
)

// moved is where Input moved the pointer of late, a ring: where a display server
// stands between, each of those moves comes back from it, some time after the next.
var moved struct {
	sync.Mutex
	to   [32]point
	when [32]time.Time
	next int
}

// echoAge bounds how long a move may take to come back.
const echoAge = 2 * time.Second

func movedTo(p point) {
	moved.Lock()
	defer moved.Unlock()
	moved.to[moved.next], moved.when[moved.next] = p, time.Now()
	moved.next = (moved.next + 1) % len(moved.to)
}

func isEcho(p point) bool {
	moved.Lock()
	defer moved.Unlock()
	for i, to := range moved.to {
		if to == p && time.Since(moved.when[i]) < echoAge {
			return true
		}
	}
	return false
}

var keyboardCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(code, what, data uintptr) uintptr {
		if int32(code) >= 0 {
			k := at[struct{ vk, scan, flags, time uint32 }](data)
			if k.flags&injectedKey == 0 {
				touch(uint16(k.vk), k.flags&keyReleased != 0)
			}
		}
		r, _, _ := procCallNextHookEx.Call(0, code, what, data)
		return r
	})
})

var mouseCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(code, what, data uintptr) uintptr {
		if int32(code) >= 0 {
			m := at[struct {
				at                point
				data, flags, time uint32
			}](data)
			if m.flags&injectedMouse == 0 && (what != wmMouseMove || !isEcho(m.at)) {
				touch(0, false)
			}
		}
		r, _, _ := procCallNextHookEx.Call(0, code, what, data)
		return r
	})
})

// touch tells the watchers; vk is 0 for the mouse. Windows drops hooks that are
// slow, so those who are told hand on at once.
func touch(vk uint16, up bool) {
	now := time.Now()
	hooks.Lock()
	defer hooks.Unlock()
	if vk != 0 {
		if up {
			delete(hooks.down, vk)
		} else {
			hooks.down[vk] = true
		}
	}
	for w := range hooks.all {
		w.touched(now)
		if vk == 0 || up || w.last != vk {
			continue
		}
		held := true
		for _, m := range w.mods {
			held = held && (hooks.down[m] || hooks.down[m+1]) // left or right
		}
		if held {
			w.stop()
		}
	}
}

// keysOf reads "ctrl+alt+escape".
func keysOf(hotkey string) (mods []uint16, last uint16, ok bool) {
	if hotkey == "" {
		return nil, 0, true
	}
	parts := strings.Split(strings.ToLower(hotkey), "+")
	for i, p := range parts {
		if p == "ctrl" {
			p = "control"
		}
		k, found := keyOf(p)
		if !found {
			return nil, 0, false
		}
		if i == len(parts)-1 {
			return mods, k.vk, true
		}
		mods = append(mods, k.vk)
	}
	return nil, 0, false
}

// Watch reports a person's events until ctx ends.
func (Person) Watch(ctx context.Context, hotkey string, touched func(time.Time), stop func()) error {
	mods, last, ok := keysOf(hotkey)
	if !ok {
		return &platform.MissingError{
			What: "The stop keys \"" + hotkey + "\" name a key that this keyboard does not have.",
			Fix:  "Choose others in node.json, such as ctrl+alt+escape.",
		}
	}
	w := &watcher{touched: touched, stop: stop, mods: mods, last: last}
	var keyboard, mouse uintptr
	return loop(ctx, func() error {
		var errno error
		if keyboard, _, errno = procSetWindowsHookEx.Call(hookKeyboard, keyboardCallback(), 0, 0); keyboard == 0 {
			return failed("SetWindowsHookEx", errno)
		}
		if mouse, _, errno = procSetWindowsHookEx.Call(hookMouse, mouseCallback(), 0, 0); mouse == 0 {
			return failed("SetWindowsHookEx", errno)
		}
		hooks.Lock()
		defer hooks.Unlock()
		if hooks.all == nil {
			hooks.all, hooks.down = map[*watcher]bool{}, map[uint16]bool{}
		}
		hooks.all[w] = true
		return nil
	}, func() {
		hooks.Lock()
		delete(hooks.all, w)
		hooks.Unlock()
		for _, h := range []uintptr{keyboard, mouse} {
			if h != 0 {
				procUnhookWindowsHookEx.Call(h)
			}
		}
	})
}
