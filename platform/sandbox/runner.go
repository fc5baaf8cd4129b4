package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
)

// A process that was started as a runner becomes one here, before main, as a guard does.
func init() {
	if len(os.Args) >= 2 {
		other(os.Args[1], os.Args[2:])
	}
	if len(os.Args) >= 4 && (os.Args[1] == runnerWord || os.Args[1] == apartWord) {
		// The program must not have them: what it wrote there would be the runner's word.
		orders, reports, err := pipes(os.Args[4:])
		if err != nil {
			os.Exit(1)
		}
		// The walls stand around a thread that is not the process's first, whom signals are for: the
		// program has none for its runner.
		runtime.LockOSThread()
		landlock, _ := strconv.Atoi(os.Args[3])
		code := make(chan int)
		go func() {
			runtime.LockOSThread()
			code <- runner(orders, reports, capabilities.IsolationClass(os.Args[2]), landlock, os.Args[1] == apartWord)
		}()
		os.Exit(<-code)
	}
}

// runner puts the walls up, runs the program and reports. Its thread is locked.
func runner(in io.Reader, out io.Writer, class capabilities.IsolationClass, landlock int, apart bool) int {
	report := &frames{w: out}
	fail := func(err error) int {
		_ = report.write(frameWall, []byte(err.Error()))
		return 1
	}
	_, _ = os.FindProcess(os.Getpid()) // what Go tries out about processes, it tries out now
	if apart {
		if err := part(); err != nil {
			return fail(fmt.Errorf("namespaces: %w", err))
		}
	}
	fence, err := newFence(landlock)
	if err != nil {
		return fail(fmt.Errorf("Landlock: %w", err))
	}
	_ = report.write(frameReady, nil)
	o, err := readOrder(in)
	if err != nil {
		return fail(err)
	}
	if o.Class != class {
		return fail(fmt.Errorf("a runner of class %s has an order of class %s", class, o.Class))
	}
	o.Apart = apart
	its, mine, err := streams()
	if err != nil {
		return fail(err)
	}
	// The keeper answers the first calls while this thread waits for them in the kernel, where
	// nobody can take its processor or stop it: it needs one of its own, and no collection.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	collect := debug.SetGCPercent(-1)
	keeper, err := raise(o, fence)
	if err != nil {
		return fail(err)
	}
	go keeper.run(teller{report})
	program, err := keeper.start(o, its[:])
	for _, f := range its {
		_ = f.Close()
	}
	if err != nil {
		return fail(err)
	}
	debug.SetGCPercent(collect)
	walls := required(o.Class, o.Door.IsValid() && !o.Nowhere)
	if apart {
		walls = append(walls, WallNamespaces)
	}
	stand, _ := json.Marshal(walls)
	_ = report.write(frameStarted, stand)
	go func() {
		_ = report.write(frameError, fmt.Appendf(nil, "\nended by its runner: %s\n", keeper.watch()))
		_ = report.write(frameExit, binary.BigEndian.AppendUint32(nil, uint32(0xffffffff)))
		os.Exit(1)
	}()
	go feed(in, mine[0])
	var readers sync.WaitGroup
	readers.Go(func() { pass(report, frameData, mine[1]) })
	readers.Go(func() { pass(report, frameError, mine[2]) })
	over := make(chan struct{})
	go func() {
		readers.Wait()
		close(over)
	}()
	code := keeper.wait(program)
	if code < 0 {
		// To kill the program is to mean all of it: what it left holds its output open, and would
		// until the deadline.
		go keeper.end(over)
	}
	<-over
	_ = report.write(frameExit, binary.BigEndian.AppendUint32(nil, uint32(int32(code))))
	return 0
}

// streams makes a program's standard input, output and error: its ends, and those of the runner.
func streams() (its, mine [3]*os.File, err error) {
	for i := range its {
		r, w, err := os.Pipe()
		if err != nil {
			return its, mine, err
		}
		if its[i], mine[i] = w, r; i == 0 {
			its[i], mine[i] = r, w
		}
	}
	return its, mine, nil
}

func readOrder(in io.Reader) (*order, error) {
	var text []byte
	buf := make([]byte, maxFrame)
	for {
		kind, data, err := readFrame(in, buf)
		switch {
		case err != nil:
			return nil, err
		case kind == frameOrder && len(text)+len(data) <= maxOrder:
			text = append(text, data...)
		case kind == frameGo:
			o := &order{}
			return o, json.Unmarshal(text, o)
		default:
			return nil, errors.New("an order that cannot be read")
		}
	}
}

// feed passes standard input on until it is over.
func feed(in io.Reader, to io.WriteCloser) {
	defer to.Close()
	buf := make([]byte, maxFrame)
	for {
		kind, data, err := readFrame(in, buf)
		if err != nil || kind == frameEnd {
			return
		}
		if _, err := to.Write(data); err != nil {
			to = discard{} // the program reads no more; what comes is thrown away
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

func pass(report *frames, kind byte, from io.Reader) {
	buf := make([]byte, maxFrame)
	for {
		n, err := from.Read(buf)
		if n > 0 && report.write(kind, buf[:n]) != nil {
			return
		}
		if err != nil {
			return
		}
	}
}
