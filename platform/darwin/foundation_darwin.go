package darwin

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unicode/utf16"
)

const (
	utf8Encoding = 0x08000100 // kCFStringEncodingUTF8
	numberDouble = 13         // kCFNumberDoubleType
)

// text makes a string; release it.
func (a *api) text(s string) ref {
	b := []byte(s)
	if len(b) == 0 {
		b = []byte{0}
	}
	return a.stringMake(0, &b[0], len(s), utf8Encoding, false)
}

// words are strings that are made once and kept: names of attributes and the like.
type words struct {
	mu   sync.Mutex
	made map[string]ref
}

var kept words

func (a *api) word(s string) ref {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if kept.made == nil {
		kept.made = map[string]ref{}
	}
	r, ok := kept.made[s]
	if !ok {
		r = a.text(s)
		kept.made[s] = r
	}
	return r
}

// is tells the type of an object; none is of no type.
func (a *api) is(o ref, kind func() uint) bool { return o != 0 && a.typeOf(o) == kind() }

// read returns at most most UTF-16 units of a string; "" for what is none.
func (a *api) read(s ref, most int) string {
	if !a.is(s, a.stringType) {
		return ""
	}
	n := min(a.stringLength(s), most)
	if n <= 0 {
		return ""
	}
	units := make([]uint16, n)
	a.stringCharacters(s, span{0, n}, &units[0])
	return string(utf16.Decode(units))
}

// number reads a number, or a truth as 0 or 1.
func (a *api) number(n ref) (float64, bool) {
	switch {
	case a.is(n, a.booleanType):
		if a.booleanValue(n) {
			return 1, true
		}
		return 0, true
	case a.is(n, a.numberType):
		var v float64
		if !a.numberValue(n, numberDouble, &v) {
			return v, true // with a loss that nobody minds
		}
		return v, true
	}
	return 0, false
}

// truth reads a truth; known is false for what is none.
func (a *api) truth(b ref) (is, known bool) {
	v, known := a.number(b)
	return known && v != 0, known
}

// items returns the items of an array, at most most; they are the array's.
func (a *api) items(array ref, most int) []ref {
	if !a.is(array, a.arrayType) {
		return nil
	}
	n := min(a.arrayCount(array), most)
	all := make([]ref, 0, max(n, 0))
	for i := range n {
		all = append(all, a.arrayValue(array, i))
	}
	return all
}

// array makes an array that holds its items; release it.
func (a *api) array(all ...ref) ref {
	if len(all) == 0 {
		all = []ref{0}
		return a.arrayMake(0, &all[0], 0, a.ownArrayItems)
	}
	return a.arrayMake(0, &all[0], len(all), a.ownArrayItems)
}

// drop releases what is there.
func (a *api) drop(all ...ref) {
	for _, o := range all {
		if o != 0 {
			a.release(o)
		}
	}
}

// pooled runs do on one thread with a pool for what AppKit hands out.
func (a *api) pooled(do func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pool := a.poolPush()
	defer a.poolPop(pool)
	do()
}

// looped runs set on a thread of its own and then delivers what its run loop is
// told, until ctx ends; then clean. It returns once set has.
func (a *api) looped(ctx context.Context, set func(loop ref) error, each func(), clean func(loop ref)) error {
	ready := make(chan error, 1)
	go func() {
		// The setting belongs to the thread's loop; the thread ends with this goroutine.
		runtime.LockOSThread()
		loop := a.retain(a.loopCurrent())
		defer a.release(loop)
		err := set(loop)
		ready <- err
		if err == nil {
			stop := context.AfterFunc(ctx, func() { a.loopStop(loop) })
			for ctx.Err() == nil {
				const lapse = 1 // second: a stop that came between two runs is seen then
				pool := a.poolPush()
				ended := a.loopRun(a.defaultMode, lapse, false)
				each()
				a.poolPop(pool)
				if ended == 1 { // kCFRunLoopRunFinished: it has no sources, and did not wait
					select {
					case <-ctx.Done():
					case <-time.After(lapse * time.Second):
					}
				}
			}
			stop()
		}
		clean(loop)
	}()
	return <-ready
}
