package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform"
)

// Program is what is to be started.
type Program struct {
	Argv  []string // the program, looked up in PATH if it is no path, and its arguments. Required.
	Env   []string // NAME=value, beside PATH, HOME, LANG and TMPDIR
	Dir   string   // where it starts; default: its scratch folder
	Read  []string // absolute folders that it may read, beside the system's
	Write []string // absolute folders that it may write
	Own   []string // absolute folders that were made for it alone, which it may write
	// Call says that it is the program of one call, and Keys are that call's effective keys, which
	// decide what it gets of all this. Default: it serves many calls, and has what its class has.
	Call bool
	Keys []string
	// Class is the row of walls and limits (S1-35). Default: t1, and t2 with a Door.
	Class  capabilities.IsolationClass
	Limits Limits // default: the class's
	// Door is its way to the network; nil: none. It is closed when the program has ended, and
	// when it could not be started.
	Door Door
	// Refused is told of each socket ("an IPv4 socket") that a program without a door wanted and did
	// not get: before the program goes on, so before its end. Default: nobody is.
	Refused func(socket string)
	// Denied is told of what else it was not granted, tried and did not get, as a capability key with
	// a few words ("another process", "a raw IPv4 socket"): before it goes on. Default: nobody is.
	Denied func(key, what string)
	// Wrote is told of each path outside its folders that the program would have changed and was
	// kept from: before it goes on. Several goroutines of a program tell one after the other.
	// Default: nobody is.
	Wrote func(path string)
	// Changed is told of each folder of Write in which the program changes something: before it goes
	// on, once of a program of one call, else with each change. Default: nobody is.
	Changed func(folder string)
	// Began is told, once the walls stand, which they are and which program they stand around.
	// Default: nobody is.
	Began func(path string, walls []Wall)
	// Missed is told of each path outside its folders that is there, and that the program wanted to
	// read: once, while it goes on. Each look at a file then takes some microseconds more. Default:
	// nobody is.
	Missed func(path string)
}

// Door is a proxy on loopback that takes connections of one program, which opens no other ones.
type Door interface {
	Addr() netip.AddrPort // IPv4
	// Direct are the addresses to which the program may connect as if there were no proxy; the
	// door carries that, too.
	Direct() []netip.AddrPort
	// Names are hosts with addresses of Direct that lead to them, for a program that takes no proxy.
	// One that has namespaces of its own finds them as it finds any host.
	Names() map[string]netip.Addr
	// Nowhere reports whether it leads nowhere and only hears what was tried, as programs of class t1
	// may have one, too.
	Nowhere() bool
	// Expect announces a connection from that address of this machine, and what the program
	// wanted to connect to: the door, or one of Direct.
	Expect(from, to netip.AddrPort)
	// Tried tells of an address that the program was not connected to.
	Tried(to netip.AddrPort)
	Close() error
}

// Sandbox starts programs. Safe for concurrent use.
type Sandbox struct {
	launcher platform.Launcher
	host     host
	pools    *pools
	hashes   *hashes
}

// host is what is used of this system.
type host struct {
	landlock int  // the newest version of Landlock that is used
	whole    bool // no namespaces are used
	rlimits  bool // no cgroups are used
}

// New makes a Sandbox; it starts nothing.
func New(launcher platform.Launcher) *Sandbox {
	return &Sandbox{launcher: launcher, host: host{landlock: newestLandlock}, pools: newPools(), hashes: &hashes{}}
}

// HeldTo returns a Sandbox that uses no newer version of Landlock than this one, as on an older
// kernel. Nothing else about it is weaker.
func (s *Sandbox) HeldTo(landlock int) *Sandbox {
	return s.with(host{landlock: min(landlock, newestLandlock), whole: s.host.whole, rlimits: s.host.rlimits})
}

// WithoutNamespaces returns a Sandbox that uses none, as on a system that refuses them. All other
// walls are the same.
func (s *Sandbox) WithoutNamespaces() *Sandbox {
	return s.with(host{landlock: s.host.landlock, whole: true, rlimits: s.host.rlimits})
}

// WithoutGroups returns a Sandbox that uses no cgroups, as where nobody may make some. All other
// walls are the same.
func (s *Sandbox) WithoutGroups() *Sandbox {
	return s.with(host{landlock: s.host.landlock, whole: s.host.whole, rlimits: true})
}

func (s *Sandbox) with(h host) *Sandbox {
	return &Sandbox{launcher: s.launcher, host: h, pools: newPools(), hashes: s.hashes}
}

// newestLandlock is the newest version that is used: the first that scopes signals.
const newestLandlock = 6

// Class returns the class that programs get here: where all walls stand t1, and t2 with a way to
// the network. The error says which wall this system does not have.
func (s *Sandbox) Class(net bool) (capabilities.IsolationClass, error) {
	class := capabilities.ClassT1
	if net {
		class = capabilities.ClassT2
	}
	if err := s.Check(class, net); err != nil {
		return capabilities.ClassNone, err
	}
	return class, nil
}

// order is what the runner is told.
type order struct {
	Path   string                      `json:"path"`
	Argv   []string                    `json:"argv"`
	Env    []string                    `json:"env"`
	Dir    string                      `json:"dir"`
	Class  capabilities.IsolationClass `json:"class"`
	Limits Limits                      `json:"limits"`
	Read   []string                    `json:"read"`
	Write  []string                    `json:"write"`
	// Door is the address of its way to the network, Direct what it connects to without a proxy.
	Door   netip.AddrPort   `json:"door,omitzero"`
	Direct []netip.AddrPort `json:"direct,omitempty"`
	// Names are the hosts that it finds by name, if it is in namespaces of its own.
	Names map[string]netip.Addr `json:"names,omitempty"`
	// Nowhere says that the door leads nowhere.
	Nowhere bool `json:"nowhere,omitempty"`
	// Reads says that Missed is told.
	Reads bool `json:"reads,omitempty"`
	// Changes are the folders of Write of which Changed is told, Once that this is once for each.
	Changes []string `json:"changes,omitempty"`
	Once    bool     `json:"once,omitempty"`
	// Container is the name of the program's AppContainer, on Windows.
	Container string `json:"container,omitempty"`
	// Apart: the runner is in namespaces of its own. It knows that itself.
	Apart bool `json:"-"`
}

// The first argument of a runner, and of one in namespaces of its own. The second is its class,
// the third the newest version of Landlock that is used.
const (
	runnerWord = "sandbox-runner"
	apartWord  = "sandbox-runner-apart"
)

// Start starts a program; ctx bounds its life. CodeIsolationUnavailable if a wall is missing,
// CodeNotFound if there is no such program.
func (s *Sandbox) Start(ctx context.Context, p Program) (*Process, error) {
	process, err := s.start(ctx, p)
	if err != nil && p.Door != nil {
		_ = p.Door.Close()
	}
	return process, err
}

func (s *Sandbox) start(ctx context.Context, p Program) (*Process, error) {
	if p.Class == "" {
		if p.Class = capabilities.ClassT1; p.Door != nil {
			p.Class = capabilities.ClassT2
		}
	}
	if err := s.Check(p.Class, p.Door != nil); err != nil {
		return nil, err
	}
	if err := p.contract(); err != nil {
		return nil, capabilities.Wrap(capabilities.CodeIsolationUnavailable, err, "The program does not fit its class: "+err.Error()+".")
	}
	p, row, err := p.granted()
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(p.Argv[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no program %.128q", p.Argv[0]).
			WithHint("Install it on the device, or name it with its folder.")
	}
	child, err := s.runnerFor(ctx, &p)
	if err != nil {
		s.pools.more()
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The program could not be started.")
	}
	o := order{
		Path: path, Argv: p.Argv, Env: environment(child.Scratch(), p.Door, p.Env), Dir: p.Dir, Read: p.Read,
		Write: append(slices.Clone(p.Write), child.Scratch()), Class: p.Class, Limits: p.Limits.over(row),
		Reads: p.Missed != nil, Once: p.Call,
	}
	if p.Changed != nil {
		o.Changes = slices.DeleteFunc(slices.Clone(p.Write), func(folder string) bool { return slices.Contains(p.Own, folder) })
	}
	if o.Dir == "" {
		o.Dir = child.Scratch()
	}
	if p.Door != nil {
		o.Door, o.Direct, o.Names, o.Nowhere = p.Door.Addr(), p.Door.Direct(), p.Door.Names(), p.Door.Nowhere()
	}
	over, err := s.host.around(&o)
	if err != nil {
		_ = child.Close()
		s.pools.more()
		return nil, capabilities.Wrap(capabilities.CodeIsolationUnavailable, err, "The program's walls could not be put up: "+err.Error()+".")
	}
	process := newProcess(ctx, child, &p, over, sync.OnceFunc(s.pools.more))
	process.bound(groupOf(child), o.Limits, func(walls []Wall) {
		if p.Began != nil {
			p.Began(path, walls)
		}
	})
	if err := process.tell(o); err != nil {
		process.Kill()
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The program could not be started.")
	}
	return process, nil
}

// runnerFor returns a runner for the program: one of its class that stands ready, or a new one.
func (s *Sandbox) runnerFor(ctx context.Context, p *Program) (platform.Process, error) {
	if p.everything() {
		return s.runner(ctx, p.Class, false) // a folder that is everything hides nothing
	}
	apart := s.apart(ctx) == nil
	if child := s.pools.take(p.Class); child != nil {
		return child, nil
	}
	return s.runner(ctx, p.Class, apart)
}

// runner starts a runner of a class, which waits for its order.
func (s *Sandbox) runner(ctx context.Context, class capabilities.IsolationClass, apart bool) (platform.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	word := runnerWord
	if apart {
		word = apartWord
	}
	group := s.host.group()
	child, err := s.launcher.Start(ctx, platform.Command{
		Path: self, Name: "runner", Apart: apart, Cgroups: group.folders(),
		Build: func(scratch string) (args, env []string) {
			return []string{
				word, string(class), strconv.Itoa(s.host.landlock), platform.PipeHandles,
			}, append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + scratch}, system(scratch)...)
		},
	})
	if err != nil {
		group.remove()
		return nil, err
	}
	group.hold(child.PID())
	return &grouped{child, group}, nil
}

// tell writes the runner its order. It goes by the pipe: the words of a command line are for
// every process of the machine to read.
func (p *Process) tell(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if len(text) > maxOrder {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "the command has more than %d bytes", maxOrder)
	}
	if err := p.stdin.to.write(frameOrder, text); err != nil {
		return err
	}
	return p.stdin.to.write(frameGo, nil)
}

// environment is all that a program finds there.
func environment(scratch string, door Door, more []string) []string {
	env := append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch, "LANG=C.UTF-8"}, quiet...)
	env = append(env, system(scratch)...)
	if door != nil {
		proxy := "http://" + door.Addr().String()
		for _, name := range proxyVariables {
			env = append(env, name+"="+proxy)
		}
		env = append(env, "NODE_USE_ENV_PROXY=1") // Node.js' own clients heed the others with it
	}
	for _, e := range more {
		name, _, _ := strings.Cut(e, "=")
		env = slices.DeleteFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		env = append(env, e)
	}
	return env
}

// quiet keeps programs from writing beside what they read when nobody asked them to: Python what it
// compiled, git what it looked up.
var quiet = []string{"PYTHONDONTWRITEBYTECODE=1", "GIT_OPTIONAL_LOCKS=0"}

// proxyVariables are where programs look for a proxy: most, npm, yarn.
var proxyVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "npm_config_proxy", "npm_config_https_proxy",
	"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
}

// Process is a running program.
type Process struct {
	child  platform.Process
	door   Door // nil: none
	told   func(socket string)
	denied func(key, what string)
	wrote  func(path string)
	change func(folder string)
	missed func(path string)
	stdin  *input
	out    *io.PipeReader
	// underWay has the next runner be started; it can be called again.
	underWay func()
	over     chan struct{} // closed when code is known

	mu      sync.Mutex
	stderr  []byte
	code    int
	wall    string
	stand   []Wall
	grouped bool
	began   func(walls []Wall)
}

const maxStderr = 16 << 10

// newProcess takes a runner that waits for its order. over takes away what stands around it.
// underWay is called once the program has said something, nothing for a while, or ended.
func newProcess(ctx context.Context, child platform.Process, of *Program, over, underWay func()) *Process {
	out, to := io.Pipe()
	door := of.Door
	p := &Process{
		child: child, door: door, told: of.Refused, denied: of.Denied, wrote: of.Wrote, change: of.Changed, missed: of.Missed,
		stdin: &input{to: &frames{w: child.In()}}, out: out, over: make(chan struct{}), code: -1, underWay: underWay,
	}
	stop := context.AfterFunc(ctx, p.Kill)
	go func() {
		defer stop()
		patience := time.AfterFunc(silent, underWay)
		p.listen(to)
		patience.Stop()
		underWay()
		_ = ended(child)
		over()
		if door != nil {
			_ = door.Close()
		}
		close(p.over)
		groupOf(child).remove()
	}()
	return p
}

// bound sets the limits of the program on its runner's group, if it has one, and who is told of the
// walls.
func (p *Process) bound(g *group, l Limits, began func(walls []Wall)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grouped, p.began = g.bound(l) == nil, began
}

// listen takes what the runner says until it says how the program ended.
func (p *Process) listen(to *io.PipeWriter) {
	defer to.Close()
	buf := make([]byte, maxFrame)
	started := false
	for {
		kind, data, err := readFrame(p.child.Out(), buf)
		if err != nil {
			return
		}
		switch kind {
		case frameStarted:
			started = true
			p.mu.Lock()
			if json.Unmarshal(data, &p.stand) != nil || len(p.stand) > len(everyWall) {
				p.stand = nil
			} else if p.grouped {
				p.stand = append(p.stand, WallGroup)
			}
			stand, began := slices.Clone(p.stand), p.began
			p.mu.Unlock()
			if began != nil {
				began(stand)
			}
		case frameData:
			p.underWay()
			_, _ = to.Write(data) // whoever does not read any more does not want it
		case frameError:
			p.mu.Lock()
			p.stderr = append(p.stderr, data...)
			p.stderr = p.stderr[max(0, len(p.stderr)-maxStderr):]
			p.mu.Unlock()
		case frameConnect:
			switch from, to, ok := readConnect(data); {
			case !ok || p.door == nil:
			case from.Port() == 0:
				p.door.Tried(to)
			default:
				p.door.Expect(from, to)
			}
		case frameSocket:
			if p.told != nil && len(data) == 2 {
				p.told(socketName(binary.BigEndian.Uint16(data)))
			}
		case frameSpawn:
			if p.denied != nil {
				p.denied(capabilities.KeySpawn, "another process")
			}
		case frameOdd:
			if p.denied != nil {
				p.denied(capabilities.KeyEgress, strings.ToValidUTF8(string(data), "\uFFFD"))
			}
		case frameTried:
			if p.denied != nil && len(data) > 0 && int(data[0]) < len(tryKeys) {
				p.denied(tryKeys[data[0]], strings.ToValidUTF8(string(data[1:]), "\uFFFD"))
			}
		case frameWrite:
			if p.wrote != nil {
				p.wrote(strings.ToValidUTF8(string(data), "\uFFFD"))
			}
		case frameChange:
			if p.change != nil {
				p.change(strings.ToValidUTF8(string(data), "\uFFFD"))
			}
		case frameRead:
			// Behind walls nobody sees what is there.
			if path := string(data); p.missed != nil && filepath.IsAbs(path) {
				if _, err := os.Stat(path); err == nil {
					p.missed(strings.ToValidUTF8(path, "\uFFFD"))
				}
			}
		case frameExit:
			if !started || len(data) != 4 {
				return
			}
			p.mu.Lock()
			p.code = int(int32(binary.BigEndian.Uint32(data)))
			p.mu.Unlock()
			return
		case frameWall:
			if started {
				return
			}
			p.mu.Lock()
			p.wall = string(data)
			p.mu.Unlock()
			return
		}
	}
}

// socketName is a socket of a family (Linux' AF_*) for people.
func socketName(family uint16) string {
	switch family {
	case 2:
		return "an IPv4 socket"
	case 10:
		return "an IPv6 socket"
	}
	return "a socket of family " + strconv.Itoa(int(family))
}

// Walls are those around it, as its runner reported once it had put them up; none before.
func (p *Process) Walls() []Wall {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stand)
}

// Stdin is its standard input; closing ends it.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is its standard output. A program whose output nobody reads waits.
func (p *Process) Stdout() io.Reader { return p.out }

// Stderr returns the end of what it wrote there, at most 16 KiB.
func (p *Process) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.ToValidUTF8(string(p.stderr), "\uFFFD")
}

// Scratch is its own folder, which is gone after its end.
func (p *Process) Scratch() string { return p.child.Scratch() }

// Wait returns its exit code once it and all that it started have ended; -1 if it was killed.
// The error is CodeIsolationUnavailable if it never started, since a wall was missing.
func (p *Process) Wait() (int, error) {
	<-p.over
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wall != "" {
		return -1, capabilities.Errorf(capabilities.CodeIsolationUnavailable, "the program could not be started behind its walls: %s", p.wall)
	}
	return p.code, nil
}

// Kill ends it and all that it started. Idempotent.
func (p *Process) Kill() {
	_ = p.out.Close()
	_ = p.child.Close()
}

// input writes frames of standard input.
type input struct{ to *frames }

func (i *input) Write(data []byte) (int, error) {
	if err := i.to.write(frameData, data); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (i *input) Close() error { return i.to.write(frameEnd, nil) }
