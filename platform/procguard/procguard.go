package procguard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// guardArg is the one argument that makes a process a guard.
const guardArg = "__guard"

// closeTimeout bounds Close: killing is immediate, deleting a profile takes
// milliseconds, so this only passes on a sick host.
const closeTimeout = 10 * time.Second

// maxOutput is how much of a child's output is kept.
const maxOutput = 16 << 10

// A process that was started as a guard becomes one here, before main and before the packages that
// this one does not need: their beginnings are two thirds of the program's.
func init() {
	if len(os.Args) == 2 && os.Args[1] == guardArg {
		os.Exit(guardMain(os.Stdin, os.Stdout))
	}
}

// spec is what the guard reads, one JSON line, before it starts the child.
type spec struct {
	Path    string         `json:"path"`
	Args    []string       `json:"args"`
	Env     []string       `json:"env"`
	User    *platform.User `json:"user,omitempty"`
	Scratch string         `json:"scratch"`
	Lend    *platform.Lend `json:"lend,omitempty"`
	Apart   bool           `json:"apart,omitempty"`
	Cgroups []string       `json:"cgroups,omitempty"`
	// Handles of the command pipe (read end, write end); Windows only.
	Handles [2]uintptr `json:"handles,omitempty"`
}

// status is what the guard writes, one JSON line each: the child's PID or why
// it could not start, and at the end that nothing is left.
type status struct {
	PID   int    `json:"pid,omitempty"`
	Lost  string `json:"lost,omitempty"` // why what was lent is at home as it was before
	Error string `json:"error,omitempty"`
	Clean bool   `json:"clean,omitempty"`
}

// Options of New.
type Options struct {
	Log *slog.Logger // Default: discard.
}

// Launcher starts guarded children. Safe for concurrent use.
type Launcher struct {
	log      *slog.Logger
	accounts accounts
	sweep    sync.Map // scratch bases and names that were swept once
}

var _ platform.Launcher = (*Launcher)(nil)

// New makes a Launcher; it starts nothing.
func New(o Options) *Launcher {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Launcher{log: o.Log}
}

// Start makes the scratch folder, starts a guard and through it the child. The
// context bounds the start only.
func (l *Launcher) Start(ctx context.Context, c platform.Command) (platform.Process, error) {
	if c.Apart && (c.User != nil || runtime.GOOS != "linux") {
		return nil, errors.New("namespaces of a child's own are of Linux, and of this account")
	}
	base := c.ScratchBase
	if base == "" {
		base = os.TempDir()
	}
	prefix := "handrail-" + c.Name + "-"
	if _, done := l.sweep.LoadOrStore(base+prefix, true); !done {
		if n := sweepScratch(base, prefix); n > 0 {
			l.log.Info("scratch.swept", "folders", n, "name", c.Name)
		}
	}
	locks := []*os.File{}
	defer func() {
		for _, f := range locks { // the guard has its own descriptors
			f.Close()
		}
	}()
	if c.Lend != nil {
		lock, err := lockHome(ctx, c.Lend)
		if err != nil {
			return nil, err
		}
		locks = append(locks, lock)
	}
	alone := false
	if c.User != nil && c.Alone {
		user, ok, release := l.accounts.pick()
		defer release()
		if ok {
			c.User, alone = &user, true
		}
	}
	scratch, lock, err := newScratch(base, prefix, c.User)
	if err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	locks = append([]*os.File{lock}, locks...)
	p, err := l.start(ctx, c, scratch, locks)
	if err != nil {
		removeAll(scratch)
		if dir := closedTo(base, c.User); dir != "" {
			err = errors.Join(&platform.MissingError{
				What: "Its account cannot enter the folder for temporary files: " + dir + " is closed to it.",
				Fix:  "Start the node with TMPDIR set to a folder that every account may enter, such as TMPDIR=/tmp.",
			}, err)
		}
		return nil, err
	}
	p.alone = alone
	return p, nil
}

func (l *Launcher) start(ctx context.Context, c platform.Command, scratch string, locks []*os.File) (*process, error) {
	var files []*os.File // every end we made, for the error path
	fail := func(err error) (*process, error) {
		for _, f := range files {
			f.Close()
		}
		return nil, err
	}
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	lifeR, lifeW, err1 := pipe()
	statusR, statusW, err2 := pipe()
	outR, outW, err3 := pipe()
	childR, inW, err4 := pipe()
	outPipeR, childW, err5 := pipe()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return fail(err)
	}

	cmd := exec.Command(selfPath(), guardArg)
	cmd.Env = []string{"GOMAXPROCS=2"} // the guard needs nothing of our environment
	cmd.Dir = os.TempDir()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = lifeR, statusW, outW
	s := spec{Path: c.Path, User: c.User, Scratch: scratch, Lend: c.Lend, Apart: c.Apart, Cgroups: c.Cgroups}
	s.Args, s.Env = c.Build(scratch)
	if err := inherit(cmd, &s, childR, childW, locks, []*os.File{lifeW, statusR, outR, inW, outPipeR}); err != nil {
		return fail(err)
	}
	s.Args = placeHandles(s.Args, s.Handles)
	line, err := json.Marshal(s)
	if err != nil {
		return fail(err)
	}
	if err := cmd.Start(); err != nil {
		return fail(fmt.Errorf("starting the guard: %w", err))
	}
	for _, f := range []*os.File{lifeR, statusW, outW, childR, childW} {
		f.Close()
	}

	p := &process{
		cmd: cmd, life: lifeW, in: inW, out: &output{f: outPipeR}, scratch: scratch, user: c.User,
		done: make(chan struct{}), log: l.log,
	}
	started := make(chan status, 1)
	go p.watch(statusR, outR, started)
	// A spec larger than a pipe's buffer waits for the guard to read; a guard
	// that dies makes the write fail.
	if _, err := lifeW.Write(append(line, '\n')); err != nil {
		p.Close()
		return nil, fmt.Errorf("the guard ended: %w", err)
	}
	select {
	case st := <-started:
		if st.Error != "" || st.PID == 0 {
			p.Close()
			return nil, fmt.Errorf("starting %s: %s", c.Path, strings.TrimSpace(st.Error+" "+p.Output()))
		}
		p.pid = st.PID
		return p, nil
	case <-ctx.Done():
		p.Close()
		return nil, ctx.Err()
	}
}

// placeHandles carries out the convention of platform.PipeHandles.
func placeHandles(args []string, handles [2]uintptr) []string {
	kept := args[:0:0]
	for _, a := range args {
		if strings.Contains(a, platform.PipeHandles) {
			if handles == [2]uintptr{} {
				continue
			}
			a = strings.ReplaceAll(a, platform.PipeHandles, fmt.Sprintf("%d,%d", handles[0], handles[1]))
		}
		kept = append(kept, a)
	}
	return kept
}

// process is a guarded child as this process sees it.
type process struct {
	cmd     *exec.Cmd
	life    *os.File // the guard lives as long as this end is open
	in      *os.File
	out     *output
	pid     int
	scratch string
	user    *platform.User
	alone   bool         // nothing else runs under user
	owner   atomic.Int64 // the process that was found to own a connection last
	log     *slog.Logger
	done    chan struct{}
	close   sync.Once

	mu     sync.Mutex
	output []byte // the last maxOutput bytes
}

func (p *process) In() io.Writer         { return p.in }
func (p *process) Out() io.Reader        { return p.out }
func (p *process) PID() int              { return p.pid }
func (p *process) Scratch() string       { return p.scratch }
func (p *process) Done() <-chan struct{} { return p.done }

func (p *process) Owns(from, to netip.AddrPort) (bool, error) { return p.owns(from, to) }

func (p *process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.output)
}

// watch reads what guard and child say until both are gone, then closes done.
func (p *process) watch(statusR, outR *os.File, started chan<- status) {
	var readers sync.WaitGroup
	said := &output{f: outR}
	readers.Go(func() {
		defer outR.Close()
		buf := make([]byte, 4096)
		for {
			n, err := said.Read(buf)
			p.keep(buf[:n])
			if err != nil {
				return
			}
		}
	})
	clean := false
	lines := bufio.NewScanner(statusR)
	for lines.Scan() {
		var st status
		if json.Unmarshal(lines.Bytes(), &st) != nil {
			continue
		}
		if st.Lost != "" {
			p.log.Error("lent.not_kept", "pid", p.pid, "error", st.Lost)
			continue
		}
		if st.Clean {
			clean = true
			continue
		}
		select {
		case started <- st:
		default:
		}
	}
	statusR.Close()
	err := p.cmd.Wait()
	if !clean {
		// Someone killed the guard. The child went with it (parent-death signal,
		// job object, and its command pipe closes); the folder is ours to delete.
		p.log.Warn("guard.lost", "pid", p.pid, "error", err)
		killOrphans(p.pid, p.scratch)
		removeAll(p.scratch)
	}
	said.end()
	p.out.end() // its reader closes it, at its end or with Close
	p.in.Close()
	p.life.Close()
	readers.Wait()
	select {
	case started <- status{Error: "the guard ended early"}:
	default:
	}
	close(p.done)
}

func (p *process) keep(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, b...)
	if over := len(p.output) - maxOutput; over > 0 {
		p.output = append(p.output[:0], p.output[over:]...)
	}
}

func (p *process) Close() error {
	p.close.Do(func() {
		p.in.Close() // the child's sign to end
		p.life.Close()
	})
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		p.out.f.Close()
		return nil
	case <-timer.C:
	}
	p.cmd.Process.Kill()
	timer.Reset(closeTimeout)
	select {
	case <-p.done:
		p.out.f.Close()
		return nil
	case <-timer.C:
		return errors.New("the guarded child did not end in time")
	}
}
