package win32

import "github.com/handrail-dev/handrail/platform"

// eventRanges are the events (EVENT_…) that are listened for, from and to: where
// things are is not among them, since it changes with every move of the pointer.
var eventRanges = [...][2]uintptr{{0x0003, 0x0007}, {0x0010, 0x0011}, {0x8000, 0x800A}, {0x800C, 0x800F}, {0x8014, 0x8014}}

// Parts of a window that events of the pointer and the caret are about (OBJID_…).
const (
	objectCaret  = -8
	objectCursor = -9
)

// eventKind returns the kind of a platform.ElementEvent; "" for what nobody waits
// for.
func eventKind(event uint32, object int32) string {
	if object == objectCaret || object == objectCursor {
		return ""
	}
	switch event {
	case 0x0003, 0x0010, 0x0011: // the front, a dialog
		return "window"
	case 0x0004, 0x0006, 0x8000, 0x8002: // a menu opens, something is made or shown
		return "added"
	case 0x0005, 0x0007, 0x8001, 0x8003:
		return "removed"
	case 0x8005:
		return "focused"
	case 0x800E, 0x8014: // a value, the selection in a text
		return "text"
	}
	return "changed"
}

// hand returns an event to a receiver; one that does not keep up gets a single
// event for the oldest of those it has not received.
func hand(c chan platform.ElementEvent, e platform.ElementEvent) {
	select {
	case c <- e:
		return
	default:
	}
	for range 2 {
		select {
		case <-c:
		default:
		}
	}
	for _, e := range []platform.ElementEvent{{Kind: "changed"}, e} {
		select {
		case c <- e:
		default:
		}
	}
}
