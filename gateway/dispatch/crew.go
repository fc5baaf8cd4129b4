package dispatch

import (
	"sync"
	"time"
)

// restTime is how long a goroutine of the crew waits for its next execution.
const restTime = 5 * time.Second

// crew runs executions in goroutines that stay for the next one: an execution
// goes deep (policy, store, transport), and growing a new stack to that depth
// every time costs more than what it does there.
type crew struct {
	jobs chan func() // unbuffered: whoever rests takes it
	end  chan struct{}
	once sync.Once
}

func newCrew() *crew { return &crew{jobs: make(chan func()), end: make(chan struct{})} }

// run starts f at once, in a resting goroutine if there is one.
func (c *crew) run(f func()) {
	select {
	case c.jobs <- f:
	default:
		go c.work(f)
	}
}

func (c *crew) work(f func()) {
	rest := time.NewTimer(restTime)
	defer rest.Stop()
	for {
		f()
		rest.Reset(restTime)
		select {
		case f = <-c.jobs:
		case <-rest.C:
			return
		case <-c.end:
			return
		}
	}
}

// dismiss sends those home who rest; who works goes after its work.
func (c *crew) dismiss() { c.once.Do(func() { close(c.end) }) }
