package procguard

import (
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// slippedAway is how long a reader waits for the end of a pipe that a process may hold
// which slipped away from its guard.
const slippedAway = time.Second

// output is the reader's end of a pipe that guard and child write to. Their output is read to its
// end, however late its reader comes: a child that said its last word and ended has said it.
type output struct {
	f     *os.File
	ended atomic.Bool // all that may write are gone
}

// Read returns io.EOF once the pipe is empty and nobody writes any more.
func (o *output) Read(p []byte) (int, error) {
	if o.ended.Load() {
		o.bound()
	}
	n, err := o.f.Read(p)
	if err != nil && !o.ended.Load() {
		return n, err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// It began to wait before the end, and what came since may not have reached it.
		o.bound()
		if n, err = o.f.Read(p); errors.Is(err, os.ErrDeadlineExceeded) {
			err = io.EOF
		}
	}
	if err != nil {
		_ = o.f.Close()
	}
	return n, err
}

// bound returns a wait that begins now its time; where pipes have none, whoever held the
// other end is gone with the job it was in.
func (o *output) bound() { _ = o.f.SetReadDeadline(time.Now().Add(slippedAway)) }

// end is called when guard and child are gone.
func (o *output) end() {
	o.ended.Store(true)
	o.bound()
}
