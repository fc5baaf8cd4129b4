package procguard

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"time"
)

// guardMain is the whole guard: start the child, wait until either it or our
// parent ends, kill everything, delete the scratch folder, say so.
func guardMain(in io.Reader, out io.Writer) int {
	// The guard ends with its parent, not by a signal meant for a terminal's or a
	// service's whole group: it still has to clean up then. Taken and dropped, not
	// ignored, because a child would inherit the ignoring.
	signal.Notify(make(chan os.Signal, 1), quietSignals()...)
	say := func(s status) {
		line, _ := json.Marshal(s)
		out.Write(append(line, '\n')) // the parent may be gone: nothing to do about it
	}
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	var s spec
	if err == nil {
		err = json.Unmarshal(line, &s)
	}
	if err != nil {
		say(status{Error: "reading the guard's orders: " + err.Error()})
		return 1
	}
	if s.Lend != nil {
		err = lendOut(s)
	}
	var c *child
	if err == nil {
		c, err = startChild(s)
	}
	if err != nil {
		removeAll(s.Scratch)
		say(status{Error: err.Error()})
		say(status{Clean: true})
		return 1
	}
	say(status{PID: c.pid})
	parentGone := make(chan struct{})
	go func() {
		io.Copy(io.Discard, r) // returns at end of file: our parent ended or let go
		close(parentGone)
	}()
	select {
	case <-parentGone:
		if s.Lend != nil {
			// Its command pipe has ended, too, at which a well-behaved child ends by
			// itself; what it has not written yet is worth a moment.
			select {
			case <-c.exited:
			case <-time.After(endWait):
			}
		}
	case <-c.exited:
	}
	c.killAll()
	if s.Lend != nil {
		if err := takeBack(s); err != nil {
			say(status{Lost: err.Error()})
		}
	}
	removeAll(s.Scratch)
	say(status{Clean: true})
	return 0
}

// endWait is how long a child that has something lent to it may take to end.
const endWait = 3 * time.Second

// removeAll deletes a scratch folder. A process that is only just dying may
// still create a file in it, so it looks again.
func removeAll(dir string) {
	for range 50 {
		if os.RemoveAll(dir) == nil {
			if _, err := os.Lstat(dir); os.IsNotExist(err) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}
