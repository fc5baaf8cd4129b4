package darwin

import "github.com/handrail-dev/handrail/platform"

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
