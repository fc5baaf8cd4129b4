package sandbox_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Refusals by a call's number are told as well: another process of a program that may
// start none, a change of rights, owner or times outside its folders, and a socket that only
// somebody wants who goes round the door. Nobody is told of what copying programs try inside, of
// what is not there, of what libraries open on their way to a name, and of a look into a process of
// its own. Where the door leads nowhere, a datagram is told (S1-50).
func TestRefusalsByNumberAreTold(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip(err)
	}
	base := t.TempDir()
	inside, seen := filepath.Join(base, "in"), filepath.Join(base, "seen")
	for _, dir := range []string{inside, seen} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(seen, "file")
	const socket = "import socket, sys\ntry: socket.socket(*[getattr(socket, n) if n[:1].isalpha() else int(n) for n in sys.argv[1:]])\nexcept OSError: pass\nelse: sys.exit('it has it')"
	vector := "(ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)"
	opens := func(words ...string) []string { return append([]string{python, "-c", socket}, words...) }
	shell := func(command string) []string { return []string{"bash", "-c", command} }
	all := []string{capabilities.KeySpawn, capabilities.KeyRead, capabilities.KeyWrite, capabilities.KeyLanguage + "python"}
	for name, c := range map[string]struct {
		argv []string
		keys []string
		told []string
	}{
		"another process": {shell("(true) || true"), all[1:], []string{capabilities.KeySpawn + " another process"}},
		"another program": {shell("exec true"), all[1:], []string{capabilities.KeySpawn + " another process"}},
		"no other":        {shell("echo x; x=$((1+1)); [[ $x = 2 ]]"), all[1:], nil},
		"others, granted": {shell("(true); ls | cat"), all, nil},

		"a mode":            {shell("chmod 777 " + file), all, []string{file}},
		"an owner":          {shell("chown 1 " + file), all, []string{file}},
		"a time":            {shell("touch -c -d 2001-01-01 -m " + file), all, []string{file}},
		"an attribute":      {[]string{python, "-c", "import os\ntry: os.setxattr('" + file + "', 'user.x', b'1')\nexcept OSError: pass"}, all, []string{file}},
		"an open file":      {[]string{python, "-c", "import os\ntry: os.fchmod(os.open('" + file + "', os.O_RDONLY), 0o777)\nexcept OSError: pass"}, all, []string{file}},
		"inside":            {shell("cd $IN && chmod 640 file && chown 1 file; cp -p file copy && touch -d 2001-01-01 copy && install -m 600 copy other"), all, nil},
		"what is not there": {shell("chmod 777 $SEEN/none; chown 1 $SEEN/none; touch -c $SEEN/none; true"), all, nil},
		"a device":          {shell("chmod 666 /dev/null; true"), all, nil},

		"a raw socket":             {opens("AF_INET", "SOCK_RAW", "1"), all, []string{capabilities.KeyEgress + " a raw IPv4 socket"}},
		"a raw one of IPv6":        {opens("AF_INET6", "SOCK_RAW", "58"), all, []string{capabilities.KeyEgress + " a raw IPv6 socket"}},
		"an echo request":          {opens("AF_INET", "SOCK_DGRAM", "1"), all, []string{capabilities.KeyEgress + " an IPv4 socket of protocol 1"}},
		"packets":                  {opens("AF_PACKET", "SOCK_RAW"), all, []string{capabilities.KeyEgress + " a socket of family 17"}},
		"a virtual machine's":      {opens("AF_VSOCK", "SOCK_STREAM"), all, []string{capabilities.KeyEgress + " a socket of family 40"}},
		"a service":                {opens("AF_UNIX", "SOCK_STREAM"), all, nil},
		"datagrams":                {opens("AF_INET", "SOCK_DGRAM"), all, nil},
		"IPv6":                     {opens("AF_INET6", "SOCK_STREAM"), all, nil},
		"another process's memory": {refused("process_vm_readv", "os.getppid()", vector, "1", vector, "1", "0"), all, []string{capabilities.KeyTrace + " process_vm_readv"}},
		"tracing another":          {refused("ptrace", "16", "os.getppid()", "0", "0"), all, []string{capabilities.KeyTrace + " ptrace"}},
		"a process that is not":    {refused("ptrace", "16", "4194303", "0", "0"), all, nil},
		"a process of its own":     {refused("ptrace", "16", "os.fork() or os._exit(0)", "0", "0"), all, nil},
		"being traced":             {refused("ptrace", "0", "0", "0", "0"), all, nil},
		"a mount":                  {refused("mount", "b'none'", "b'/tmp'", "b'tmpfs'", "0", "0"), all, []string{capabilities.KeySystem + " mount"}},
		"another root":             {refused("chroot", "b'/'"), all, []string{capabilities.KeySystem + " chroot"}},
		"the machine's name":       {refused("sethostname", "b'x'", "1"), all, []string{capabilities.KeySystem + " sethostname"}},
		"a program of the kernel's": {refused("syscall", "321 if os.uname().machine == 'x86_64' else 280", "0", "None", "0"), all,
			[]string{capabilities.KeySystem + " bpf"}},
		"what the kernel counts": {refused("syscall", "298 if os.uname().machine == 'x86_64' else 241", "None", "0", "-1", "-1", "0"), all,
			[]string{capabilities.KeySystem + " perf_event_open"}},
		"namespaces":            {refused("unshare", "0x10000000"), all, []string{capabilities.KeySystem + " unshare"}},
		"datagrams, no network": {opens("AF_INET", "SOCK_DGRAM"), all, []string{capabilities.KeyLookup + " an IPv4 socket for datagrams"}},
		"IPv6, no network":      {opens("AF_INET6", "SOCK_DGRAM"), all, nil},
		"a service, no network": {opens("AF_UNIX", "SOCK_STREAM"), all, nil},
		"a name":                {[]string{python, "-c", "import socket\ntry: socket.getaddrinfo('none.example', 443)\nexcept OSError: pass"}, all, nil},
	} {
		for _, landlock := range []int{0, 4} {
			var w told
			door := sandbox.Door(newEcho(t))
			if strings.HasSuffix(name, "no network") {
				door = nowhere{newEcho(t)}
			}
			child, err := heldTo(t, landlock).Start(t.Context(), sandbox.Program{
				Argv: c.argv, Env: []string{"IN=" + inside, "SEEN=" + seen}, Read: []string{seen}, Write: []string{inside}, Door: door, Call: true, Keys: c.keys,
				Wrote: w.wrote, Denied: func(key, what string) { w.wrote(key + " " + what) },
			})
			if err != nil {
				t.Fatal(err)
			}
			_ = child.Stdin().Close()
			_, _ = io.Copy(io.Discard, child.Stdout())
			if slices.Contains(child.Walls(), sandbox.WallNoConnection) != door.Nowhere() {
				t.Error(name, "stands behind", child.Walls())
			}
			if _, err := child.Wait(); err != nil || strings.Contains(child.Stderr(), "it has it") {
				t.Fatal(name, err, child.Stderr())
			}
			if got := slices.Compact(w.all()); !slices.Equal(got, c.told) { // some try again
				t.Errorf("%s (Landlock %d): told of %q, want %q; it said %s", name, landlock, got, c.told, child.Stderr())
			}
		}
	}
}

// nowhere is a door that only hears what was tried.
type nowhere struct{ *echo }

func (nowhere) Nowhere() bool { return true }
