package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

var (
	peers  = flag.String("peers", "", "the folder of node_modules with @anthropic-ai/sandbox-runtime: compare with it and with bwrap")
	out    = flag.String("out", "", "the page whose table is written anew")
	noName = flag.Bool("no-namespaces", false, "refuse this process user namespaces, as stock Ubuntu 24.04 does")
)

// TestMain is the hostile program, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "hostile" {
		var a aims
		if err := json.Unmarshal([]byte(os.Args[3]), &a); err != nil {
			panic(err)
		}
		do := hostile[os.Args[2]]
		for _, more := range []map[string]func(aims) error{harmless, curious} {
			if do == nil {
				do = more[os.Args[2]]
			}
		}
		if err := do(a); err != nil {
			fmt.Println("refused:", err)
			os.Exit(1)
		}
		fmt.Println("done")
		os.Exit(0)
	}
	flag.Parse()
	if *noName {
		if err := withoutNamespaces(); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// withoutNamespaces has the kernel refuse this process, and all that it starts, new namespaces.
func withoutNamespaces() error {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(what uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: what} }
	const flags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	program := []unix.SockFilter{
		load(0), jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1), end(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 3, 0), jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(16), jump(unix.BPF_JSET, flags, 0, 1),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)), end(unix.SECCOMP_RET_ALLOW),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	return nil
}

// jail runs a program and returns what it wrote.
type jail struct {
	name string
	run  func(ctx context.Context, g *ground, argv ...string) (string, error)
}

// boxed is platform/sandbox, with the kernel's Landlock or an older one.
func boxed(landlock int) *sandbox.Sandbox {
	box := sandbox.New(procguard.New(procguard.Options{}))
	if landlock > 0 {
		box = box.HeldTo(landlock)
	}
	return box
}

// plain is what stock Ubuntu 24.04 has: its Landlock, and no namespaces.
func plain() *sandbox.Sandbox { return boxed(4).WithoutNamespaces() }

// ours is one of them.
func ours(name string, box *sandbox.Sandbox) jail {
	return jail{name, func(ctx context.Context, g *ground, argv ...string) (string, error) {
		p, err := box.Start(ctx, sandbox.Program{
			Argv: argv, Read: []string{g.Readable}, Write: []string{g.Inside}, Limits: sandbox.Limits{Processes: 100}, // fewer than by default, for time
		})
		if err != nil {
			return "", err
		}
		defer p.Kill()
		_ = p.Stdin().Close()
		text, _ := io.ReadAll(p.Stdout())
		code, err := p.Wait()
		if err == nil && code != 0 {
			err = fmt.Errorf("it ended with %d: %s", code, p.Stderr())
		}
		return string(text), err
	}}
}

func bwrap() jail {
	return jail{"bwrap", func(ctx context.Context, g *ground, argv ...string) (string, error) {
		self, _ := os.Executable()
		args := []string{"--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"}
		for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", self, g.Readable} {
			args = append(args, "--ro-bind", dir, dir)
		}
		args = append(append(args, "--bind", g.Inside, g.Inside, "--chdir", g.Inside, "--"), argv...)
		return outputOf(exec.CommandContext(ctx, "bwrap", args...))
	}}
}

func srt(folder string) jail {
	return jail{"sandbox-runtime", func(ctx context.Context, g *ground, argv ...string) (string, error) {
		settings := filepath.Join(g.dir, "settings.json")
		text, err := json.Marshal(map[string]any{
			"network":    map[string]any{"allowedDomains": []string{}, "deniedDomains": []string{}},
			"filesystem": map[string]any{"denyRead": []string{g.Outside}, "allowWrite": []string{g.Inside}, "denyWrite": []string{}},
		})
		if err == nil {
			err = os.WriteFile(settings, text, 0o600)
		}
		if err != nil {
			return "", err
		}
		quoted := ""
		for _, a := range argv {
			quoted += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		c := exec.CommandContext(ctx, filepath.Join(folder, "node_modules/.bin/srt"), "--settings", settings, "-c", quoted)
		c.Dir = g.Inside
		return outputOf(c)
	}}
}

func outputOf(c *exec.Cmd) (string, error) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = 2 * time.Second
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	text, err := c.CombinedOutput()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
	return string(text), err
}

// ground is what programs aim at, and what is looked at from outside.
type ground struct {
	aims
	dir    string
	victim *exec.Cmd

	mu    sync.Mutex
	heard bytes.Buffer // by the listeners
}

func newGround(t *testing.T) *ground {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "handrail-escape-") // not where a jail has its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	g := &ground{dir: dir, aims: aims{Inside: filepath.Join(dir, "inside"), Readable: filepath.Join(dir, "readable"), Outside: filepath.Join(dir, "outside")}}
	for _, d := range []string{g.Inside, g.Readable, g.Outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	g.Socket, g.Abstract = filepath.Join(g.Readable, "socket"), "@handrail-escape-"+strconv.Itoa(os.Getpid())
	g.TCP, g.TCP6, g.UDP = g.listen(t, "tcp4", "127.0.0.1:0"), g.listen(t, "tcp6", "[::1]:0"), g.packets(t)
	g.listen(t, "unix", g.Socket)
	g.listen(t, "unix", g.Abstract)
	if g.Memory, err = unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600|unix.IPC_CREAT); err == nil {
		at, err := unix.SysvShmAttach(g.Memory, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		copy(at, canary)
		_ = unix.SysvShmDetach(at)
		t.Cleanup(func() { _, _ = unix.SysvShmCtl(g.Memory, unix.IPC_RMID, nil) })
	}
	g.again(t)
	return g
}

func (g *ground) listen(t *testing.T, network, at string) string {
	t.Helper()
	l, err := net.Listen(network, at)
	if err != nil {
		if network == "tcp6" {
			return at
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			g.hear([]byte(canary)) // that it came so far is enough
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

func (g *ground) packets(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 100)
		for {
			n, _, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			g.hear(buf[:n])
		}
	}()
	return c.LocalAddr().String()
}

func (g *ground) hear(text []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.heard.Write(text)
}

// again puts everything back as it was.
func (g *ground) again(t *testing.T) {
	t.Helper()
	if g.victim != nil {
		_ = g.victim.Process.Kill()
		_ = g.victim.Wait()
	}
	for _, dir := range []string{g.Inside, g.Outside} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(filepath.Join(g.Readable, "a"))
	for file, text := range map[string]string{filepath.Join(g.Inside, "own"): "", filepath.Join(g.Readable, "a"): seen, filepath.Join(g.Outside, "key"): canary} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.victim = exec.Command("sleep", "600")
	g.victim.Dir, g.victim.Env = g.Outside, []string{"SECRET=" + canary}
	g.victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := g.victim.Start(); err != nil {
		t.Fatal(err)
	}
	g.Victim = g.victim.Process.Pid
	g.mu.Lock()
	g.heard.Reset()
	g.mu.Unlock()
}

// escaped looks from outside at what a program got at; "": nothing.
func (g *ground) escaped(name, said string, before os.FileInfo) string {
	g.mu.Lock()
	heard := g.heard.Len() > 0
	g.mu.Unlock()
	now, err := os.Stat(filepath.Join(g.Readable, "a"))
	text, _ := os.ReadFile(filepath.Join(g.Readable, "a"))
	_, attribute := unix.Getxattr(filepath.Join(g.Readable, "a"), "user.x", make([]byte, 8))
	var limit unix.Rlimit
	_ = unix.Prlimit(g.Victim, unix.RLIMIT_NOFILE, nil, &limit)
	nice, _ := unix.Getpriority(unix.PRIO_PROCESS, g.Victim)
	own, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	shadow, _ := os.ReadFile("/etc/shadow")
	first, _, _ := strings.Cut(string(shadow), "\n")
	exists := func(path string) bool { _, err := os.Lstat(path); return err == nil }
	size := func(path string) int64 {
		if info, err := os.Stat(path); err == nil {
			return info.Size()
		}
		return 0
	}
	mode := func(path string) os.FileMode {
		if info, err := os.Stat(path); err == nil {
			return info.Mode()
		}
		return 0
	}
	switch {
	case strings.HasPrefix(name, "probe:") && strings.HasSuffix(strings.TrimSpace(said), "done"):
		return "the kernel did it"
	case strings.Contains(said, "took 6 GiB"):
		return "it has 6 GiB"
	case strings.Contains(said, canary):
		return "it has the secret"
	case first != "" && strings.Contains(said, first):
		return "it has the hashes"
	case heard:
		return "a service heard it"
	case err != nil:
		return "the file is gone"
	case string(text) != seen:
		return "the file was changed"
	case now.Mode() != before.Mode() || now.Sys().(*syscall.Stat_t).Uid != before.Sys().(*syscall.Stat_t).Uid || !now.ModTime().Equal(before.ModTime()) || attribute == nil:
		return "the file's attributes were changed"
	case exists(filepath.Join(g.Outside, "made")):
		return "it made a file outside"
	case mode(filepath.Join(g.Inside, "own"))&(os.ModeSetuid|os.ModeSetgid) != 0:
		return "the program is set-user-ID"
	case mode(filepath.Join(g.Inside, "mem"))&os.ModeDevice != 0:
		return "there is a device"
	case size(filepath.Join(g.Inside, "big")) > 2<<30:
		return "the file has 3 GiB"
	case !g.alive():
		return "the process was ended or stopped"
	case limit.Cur == 7:
		return "the process was bounded"
	case nice != own:
		return "the process was slowed"
	}
	return ""
}

// alive reports whether the victim runs.
func (g *ground) alive() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.Victim))
	_, rest, ok := strings.Cut(string(text), ") ")
	return err == nil && ok && !strings.ContainsAny(rest[:1], "TtZX")
}

// tries runs one program in a jail and says what it got at.
func (g *ground) tries(t *testing.T, j jail, name string) (escaped, said string, err error) {
	t.Helper()
	g.again(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(filepath.Join(g.Readable, "a"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(g.aims)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	look := make(chan string, 1)
	looking, stop := context.WithCancel(ctx)
	go func() { look <- g.whileItRuns(looking, name) }()
	began := time.Now()
	said, err = j.run(ctx, g, self, "hostile", name, string(text))
	if took := time.Since(began); took > time.Second {
		t.Logf("%s: %s took %v", j.name, name, took.Round(time.Millisecond))
	}
	stop()
	during := <-look
	escaped = g.escaped(name, said, before)
	if name == "go on after its end" {
		at := filepath.Join(g.Inside, "alive")
		then, _ := os.ReadFile(at)
		time.Sleep(300 * time.Millisecond)
		if now, _ := os.ReadFile(at); len(now) > len(then) {
			escaped = "it goes on"
			_ = os.Remove(filepath.Join(g.Inside, "going"))
		}
	}
	if escaped == "" {
		escaped = during
	}
	return escaped, said, err
}

// whileItRuns is what can only be seen until the program ends.
func (g *ground) whileItRuns(ctx context.Context, name string) string {
	found, since := "", time.Time{}
	for ctx.Err() == nil && found == "" {
		switch name {
		case "begin without end":
			switch n := len(below(os.Getpid())); {
			case n < bombs-50:
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > time.Second:
				found = "its processes stay"
			}
		case "listen for others":
			if at, err := os.ReadFile(filepath.Join(g.Inside, "port")); err == nil {
				if c, err := net.DialTimeout("tcp", string(at), 100*time.Millisecond); err == nil {
					_ = c.Close()
					found = "others were served"
				}
			}
		default:
			return ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
	return found
}

// below lists the processes that this one started.
func below(root int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err1 := strconv.Atoi(e.Name())
		if len(fields) < 2 || err1 != nil {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
	}
	all := slices.Clone(children[root])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// namespaces reports whether they stand here, and that they do not where they are refused.
func namespaces(t *testing.T) bool {
	t.Helper()
	for _, w := range boxed(0).Walls(t.Context()) {
		if w.Wall == sandbox.WallNamespaces && w.Err != nil {
			t.Log("without namespaces:", w.Err)
			return false
		}
	}
	if *noName {
		t.Fatal("namespaces stand where they are refused")
	}
	return true
}

// No hostile program gets out, with the kernel's Landlock and with that of Linux 6.8; what programs
// do every day works.
func TestNothingEscapes(t *testing.T) {
	stand := namespaces(t)
	g := newGround(t)
	for _, j := range []jail{ours("ours", boxed(0)), ours("ours, Landlock 4", boxed(4))} {
		t.Run(j.name, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(hostile)) {
				if escaped, said, _ := g.tries(t, j, name); escaped != "" {
					t.Errorf("%s: %s: %s", name, escaped, said)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(curious)) {
				if _, said, _ := g.tries(t, j, name); strings.HasPrefix(said, "done") == stand {
					t.Errorf("%s, with namespaces %v: %s", name, stand, said)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(harmless)) {
				if escaped, said, err := g.tries(t, j, name); escaped != "" || err != nil {
					t.Errorf("%s: %s %v: %s", name, escaped, err, said)
				}
			}
		})
	}
}

// The same where no namespaces are to be had, as on stock Ubuntu 24.04 and in a plain container.
func TestNothingEscapesWithoutNamespaces(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-test.run", "^TestNothingEscapes$|^TestStockPrograms$", "-no-namespaces")
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// Every hostile program does harm where no wall stands: a case that cannot fail is none.
func TestHarmWithoutWalls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("some of it takes root")
	}
	g := newGround(t)
	bare := jail{"none", func(ctx context.Context, _ *ground, argv ...string) (string, error) {
		return outputOf(exec.CommandContext(ctx, argv[0], argv[1:]...))
	}}
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		// These would harm the machine, or take what this kernel may not have.
		if name == "end all that it may" || strings.HasPrefix(name, "probe:") || name == "make a device" || name == "take memory without end" || strings.Contains(name, "IPv6") || strings.Contains(name, "by sending") || strings.Contains(name, "attribute") {
			continue
		}
		// A signal's effect may come after the look; harm that is done at all is found again.
		for left := 4; ; left-- {
			escaped, said, err := g.tries(t, bare, name)
			if escaped != "" {
				break
			}
			if left == 0 {
				t.Errorf("%s did no harm: %v %s", name, err, said)
				break
			}
		}
	}
}

// TestTable compares, and writes the table.
func TestTable(t *testing.T) {
	if *peers == "" {
		t.Skip("make escape runs it")
	}
	g := newGround(t)
	jails := []jail{ours("Handrail", boxed(0)), ours("Handrail, no namespaces, Landlock 4", plain()), bwrap(), srt(*peers)}
	cells, let := map[string][]string{}, make([]int, len(jails))
	all := append(slices.Sorted(maps.Keys(hostile)), slices.Sorted(maps.Keys(harmless))...)
	var times []string
	for i, j := range jails {
		for _, name := range all {
			escaped, said, err := g.tries(t, j, name)
			cell := "refused"
			switch _, good := harmless[name]; {
			case good && err == nil:
				cell = "works"
			case good:
				cell = "**fails**"
				t.Logf("%s: %s: %v %s", j.name, name, err, said)
			case escaped != "":
				cell = "**" + escaped + "**"
				let[i]++
			}
			cells[name] = append(cells[name], cell)
		}
		times = append(times, g.spawn(t, j))
	}
	var b strings.Builder
	b.WriteString("| program |")
	for _, j := range jails {
		b.WriteString(" " + j.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(jails)) + "\n")
	for _, name := range all {
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells[name], " | "))
	}
	b.WriteString(moduleRow(t, g, len(jails)-2))
	fmt.Fprintf(&b, "| **let through** | %s |\n", strings.Trim(fmt.Sprint(let), "[]"))
	text := strings.Replace(b.String(), strings.Trim(fmt.Sprint(let), "[]"), strings.Join(strings.Fields(strings.Trim(fmt.Sprint(let), "[]")), " | "), 1)
	text += fmt.Sprintf("| `true`, from start to end, median of %d | %s |\n", spawns, strings.Join(times, " | "))
	t.Log("\n" + text)
	if *out == "" {
		return
	}
	page, err := os.ReadFile(*out)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- escape -->\n", "<!-- /escape -->"
	before, rest, ok1 := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatal("the page has no place for the table")
	}
	if err := os.WriteFile(*out, []byte(before+begin+text+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

const spawns = 15

func (g *ground) spawn(t *testing.T, j jail) string {
	t.Helper()
	var all []time.Duration
	for range spawns {
		began := time.Now()
		if said, err := j.run(t.Context(), g, "true"); err != nil {
			return "fails: " + err.Error() + said
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return fmt.Sprintf("%.1f ms", float64(all[len(all)/2].Microseconds())/1000)
}
