package win32

import (
	"context"
	"runtime"
	"unsafe"
)

const wmQuit = 0x0012

// loop runs set on a thread of its own and then delivers that thread's messages,
// which hooks need, until ctx ends; then clean. It returns once set has.
func loop(ctx context.Context, set func() error, clean func()) error {
	ready := make(chan error, 1)
	go func() {
		// The hooks belong to the thread; it ends with this goroutine.
		runtime.LockOSThread()
		thread, _, _ := procGetCurrentThreadID.Call()
		var m message
		procPeekMessage.Call(uintptr(unsafe.Pointer(&m)), 0, 0, 0, 0) // makes the queue
		err := set()
		stop := context.AfterFunc(ctx, func() { procPostThreadMessage.Call(thread, wmQuit, 0, 0) })
		ready <- err
		if err == nil {
			for {
				if got, _, _ := procGetMessage.Call(uintptr(unsafe.Pointer(&m)), 0, 0, 0); int32(got) <= 0 {
					break
				}
			}
		}
		stop()
		clean()
	}()
	return <-ready
}
