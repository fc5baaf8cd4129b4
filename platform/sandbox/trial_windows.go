package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/windows"
)

// Walls that were never seen to hold are tried: this binary starts itself and the system's shell
// behind them, and looks at what they got.

// found is why walls do not stand here; nil: they do.
type found struct{ inside, network, door, limits, processes error }

// trialTime bounds each.
const trialTime = 20 * time.Second

// A trial ends with one of these: it got the thing that it tried to get, or not.
const (
	trialGot     = 10
	trialRefused = 11
)

// trialWord is the first argument of what tries a wall.
const trialWord = "sandbox-trial"

// tryWall is what this binary does in a trial.
func tryWall(args []string) int {
	answer := func(got bool) int {
		if got {
			return trialGot
		}
		return trialRefused
	}
	switch {
	case len(args) == 1 && args[0] == "memory":
		_, err := windows.VirtualAlloc(0, trialMemory*2, windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
		return answer(err == nil)
	case len(args) == 1 && args[0] == "start":
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		return answer(exec.Command(self, trialWord, "nothing").Start() == nil)
	case len(args) == 2 && args[0] == "read":
		_, err := os.ReadFile(args[1])
		return answer(err == nil)
	case len(args) == 1 && args[0] == "spin":
		for began := time.Now(); time.Since(began) < trialTime; {
		}
		return trialGot
	case len(args) == 2 && args[0] == "connect":
		c, err := net.DialTimeout("tcp4", args[1], 3*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return answer(err == nil)
	}
	return 0
}

// trialMemory is the limit of a trial's memory. A program of Go fits in it.
const trialMemory = 256 << 20

// trials tries, once.
var trials = sync.OnceValue(func() (f found) {
	f.limits = expect(Limits{Memory: trialMemory, Processes: 8}, "a Job Object bounds no memory here", "memory")
	f.processes = expect(Limits{Processes: 1}, "a Job Object bounds no processes here", "start")
	c, err := newContainer()
	if err != nil {
		f.inside, f.network, f.door = err, err, err
		return f
	}
	defer c.close()
	f.inside, f.network, f.door = tryInside(c), tryNetwork(c), tryDoor(c)
	return f
})

// expect wants a trial of this binary refused what it tries, by a job.
func expect(l Limits, said string, what ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return refuses(nil, l, said, append([]string{self, trialWord}, what...)...)
}

// refuses wants a trial to be refused what it tries, and says so if it is not.
func refuses(sid *windows.SID, l Limits, said string, argv ...string) error {
	switch code, err := runTrial(sid, l, argv...); {
	case err != nil:
		return err
	case code == trialGot:
		return errors.New(said)
	case code != trialRefused:
		return fmt.Errorf("a trial ended with %d", code)
	}
	return nil
}

// tryInside has this binary start in a container, and not read a file of ours.
func tryInside(c *container) error {
	dir, err := os.MkdirTemp("", "handrail-trial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	secret := filepath.Join(dir, "private")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		return err
	}
	return contrast(c, "an AppContainer let a program read what it must not", "read", secret)
}

// tryNetwork has it not reach a service of this machine from there.
func tryNetwork(c *container) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	return contrast(c, "an AppContainer let a program reach the network", "connect", l.Addr().String())
}

// tryDoor has it reach a service of this machine from there, by a relay and by nothing else.
func tryDoor(c *container) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := c.allow(self, mayRead); err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	heard := make(chan error, 1)
	go func() {
		peer, err := l.Accept()
		if err == nil {
			err = peer.Close()
		}
		heard <- err
	}()
	at, err := startRelay(c.sid, l.Addr().(*net.TCPAddr).AddrPort(), func(uint16, netip.AddrPort) error { return nil })
	if err != nil {
		return err
	}
	if code, err := runTrial(c.sid, Limits{Processes: 8}, self, trialWord, "connect", at.String()); err != nil || code != trialGot {
		return fmt.Errorf("a program in an AppContainer does not reach its relay: %d %v", code, err)
	}
	select {
	case err := <-heard:
		return err
	case <-time.After(trialTime):
		return errors.New("a relay reached nothing")
	}
}

// contrast wants this binary to get something, and not to get it in a container.
func contrast(c *container, said string, what ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := c.allow(self, mayRead); err != nil {
		return err
	}
	argv := append([]string{self, trialWord}, what...)
	if code, err := runTrial(nil, Limits{Processes: 8}, argv...); err != nil || code != trialGot {
		return fmt.Errorf("it cannot be tried (%d): %v", code, err)
	}
	return refuses(c.sid, Limits{Processes: 8}, said, argv...)
}

// runTrial runs a program to its end, in a container unless sid is nil.
func runTrial(sid *windows.SID, l Limits, argv ...string) (int, error) {
	j, err := newJob(l)
	if err != nil {
		return 0, err
	}
	defer j.close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	dir := os.Getenv("SystemRoot")
	o := &order{Path: argv[0], Argv: argv, Env: append([]string{"PATH=" + os.Getenv("PATH")}, system(os.TempDir())...), Dir: dir, Limits: l}
	process, err := launch(o, []*os.File{null, null, null}, sid, j)
	if err != nil {
		return 0, err
	}
	stop := time.AfterFunc(trialTime, j.end)
	defer stop.Stop()
	state, err := process.Wait()
	if err != nil {
		return 0, err
	}
	return state.ExitCode(), nil
}
