package sandbox

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"sync"
)

// Main turns this process into a runner if it was started as one, and then does not return.
// Call it in main, after procguard.Main, and in TestMain of packages that start programs.
func Main() {
	if len(os.Args) == 2 && os.Args[1] == runnerWord {
		// The program must not have them: what it wrote there would be the runner's word.
		keepFromProgram(3)
		keepFromProgram(4)
		os.Exit(runner(os.NewFile(3, "orders"), os.NewFile(4, "reports")))
	}
}

// runner puts the walls up, runs the program and reports.
func runner(in io.Reader, out io.Writer) int {
	report := &frames{w: out}
	fail := func(err error) int {
		_ = report.write(frameWall, []byte(err.Error()))
		return 1
	}
	o, err := readOrder(in)
	if err != nil {
		return fail(err)
	}
	cmd := &exec.Cmd{Path: o.Path, Args: o.Argv, Env: o.Env, Dir: o.Dir, SysProcAttr: attributes()}
	stdin, err1 := cmd.StdinPipe()
	stdout, err2 := cmd.StdoutPipe()
	stderr, err3 := cmd.StderrPipe()
	if err := errors.Join(err1, err2, err3); err != nil {
		return fail(err)
	}
	doorkeeper, err := raise(o)
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	_ = report.write(frameStarted, nil)
	if doorkeeper != nil {
		go doorkeeper.run(func(from uint16, to netip.AddrPort) error { return report.write(frameConnect, appendConnect(from, to)) })
	}
	go feed(in, stdin)
	var readers sync.WaitGroup
	readers.Go(func() { pass(report, frameData, stdout) })
	readers.Go(func() { pass(report, frameError, stderr) })
	readers.Wait()
	_ = cmd.Wait() // its state says it
	_ = report.write(frameExit, binary.BigEndian.AppendUint32(nil, uint32(int32(cmd.ProcessState.ExitCode()))))
	return 0
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
