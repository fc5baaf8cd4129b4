package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/drift/events"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// tries is a hostile program: it evaluates its argument, has none of the system's refusals end it,
// and says so if something worked. Its call by a number is c.
const tries = `import ctypes, os, socket, sys
l = ctypes.CDLL(None, use_errno=True)
c = l.syscall
b = ctypes.create_string_buffer(512)
up = os.getppid()
try:
    if eval(sys.argv[1][len("what="):]) != -1: print('it worked')
except OSError: pass
`

// Each attempt of a program at what no call is granted is refused by its walls and leaves an event
// with the call, the key and the words, in the chain of the ledger: at other processes, at the
// system, at new rights, at keys of the account, at a port of its own. Another way of the kernel
// to what the program has anyway is a warning. A look, a call about the program itself, and one
// for what is not there leave nothing (S1-02, S1-43, S1-49, S1-50).
func TestEachAttemptDrifts(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip(err)
	}
	h, n, admin := hosting(t)
	h.Drifts = true
	manifest, err := json.Marshal(map[string]any{"tools": []any{map[string]any{
		"name": "try", "description": "Tries something.", "argv": []string{"/usr/bin/python3", "-c", tries, "what={what}"},
		"params": map[string]any{"what": map[string]any{"type": "string"}}, "required": []string{"what"},
	}}})
	must(t, err)
	for _, p := range []api.AddProvider{{Name: "cmd"}, {Name: "net", Net: []string{"api.example"}}} {
		p.Kind, p.Host, p.Manifest = "command", n.ID, string(manifest)
		body, err := json.Marshal(p)
		must(t, err)
		var added api.Provider
		admin.ok(http.MethodPost, "/v1/providers", string(body), &added)
		approved(t, admin, added, "allow")
	}
	n.AwaitReady("tyrum.cmd.try", "tyrum.net.try")
	call := func(number int, args string) string { return "c(" + strconv.Itoa(number) + ", " + args + ")" }
	const granted = "l.kill(os.getpid(), 28)" // SIGWINCH, to itself
	var calls []string
	for _, c := range []struct{ what, key, evidence string }{
		{"l.kill(up, 15)", capabilities.KeyControl, "kill SIGTERM"},
		{call(unix.SYS_TGKILL, "up, up, 9"), capabilities.KeyControl, "kill SIGKILL"},
		{"l.prlimit(up, 7, ctypes.byref((ctypes.c_ulong * 2)(64, 64)), None)", capabilities.KeyControl, "prlimit64"},
		{"l.setpriority(0, up, 19)", capabilities.KeyControl, "setpriority"},
		{"l.fcntl(0, 8, up)", capabilities.KeyControl, "a descriptor's signals"},
		{"l.ptrace(16, up, 0, 0)", capabilities.KeyTrace, "ptrace"},
		{call(unix.SYS_KCMP, "up, os.getpid(), 0, 0, 0"), capabilities.KeyTrace, "kcmp"},
		{"l.unshare(" + strconv.Itoa(unix.CLONE_NEWUSER) + ")", capabilities.KeySystem, "unshare"},
		{call(unix.SYS_CLONE, strconv.Itoa(unix.CLONE_NEWUSER|int(unix.SIGCHLD))+", 0, 0, 0, 0"), capabilities.KeySystem, "clone of a namespace"},
		{"l.setns(0, 0)", capabilities.KeySystem, "setns"},
		{"l.mount(b'none', b'/tmp', b'tmpfs', 0, 0)", capabilities.KeySystem, "mount"},
		{call(unix.SYS_BPF, "0, 0, 0"), capabilities.KeySystem, "bpf"},
		{call(unix.SYS_SYSLOG, "5, 0, 0"), capabilities.KeySystem, "syslog"},
		{call(unix.SYS_CLOCK_ADJTIME, "0, ctypes.create_string_buffer(bytes([1]), 512)"), capabilities.KeySystem, "clock_adjtime"},
		{call(unix.SYS_KEYCTL, "0, -4, 1"), capabilities.KeyKeyring, "keyctl"},
		{call(unix.SYS_ADD_KEY, "b'user', b'x', b'y', 1, -4"), capabilities.KeyKeyring, "add_key"},
		{call(unix.SYS_REQUEST_KEY, "b'user', b'x', 0, -4"), capabilities.KeyKeyring, "request_key"},
		{call(unix.SYS_IO_URING_SETUP, "4, b"), capabilities.KeyInterface, "io_uring_setup"},
		{call(unix.SYS_IO_URING_ENTER, "0, 1, 0, 0, 0, 0"), capabilities.KeySystem, "io_uring_enter"},
		{call(unix.SYS_USERFAULTFD, "1"), capabilities.KeyInterface, "userfaultfd"},
		{"socket.socket().bind(('0.0.0.0', 8080))", capabilities.KeyListen, "bind 0.0.0.0:8080"},
		{"socket.socket().listen()", capabilities.KeyListen, "listen"},

		{granted, "", ""},
		{"l.kill(up, 0)", "", ""},
		{"l.kill(4194303, 9)", "", ""},
		{"l.setpriority(0, os.getpid(), 19)", "", ""},
		{call(unix.SYS_KCMP, "os.getpid(), os.getpid(), 0, 0, 1"), "", ""},
		{call(unix.SYS_SYSLOG, "10, 0, 0"), "", ""},
		{"l.shmget(0, 8, 0o600)", "", ""},
		{"socket.socket().bind(('127.0.0.1', 0))", "", ""},
	} {
		h.lift() // three violations are too many
		args, err := json.Marshal(map[string]string{"what": c.what})
		must(t, err)
		tool := capabilities.ToolID("tool.cmd.try")
		if strings.HasPrefix(c.what, "socket") { // without a door there is no socket
			tool = "tool.net.try"
		}
		r := h.Call(ctx(), tool, string(args), "")
		want(t, r, capabilities.StatusOK, "")
		if strings.Contains(string(r.Output), "it worked") != (c.what == granted) {
			t.Errorf("%s: %s", c.what, r.Output)
		}
		list, _, err := h.Drift.List(ctx(), events.Filter{Call: r.Call})
		must(t, err)
		if c.key == "" {
			if len(list) != 0 {
				t.Errorf("%s: %+v", c.what, list)
			}
			continue
		}
		severity := drift.Violation
		if c.key == capabilities.KeyInterface {
			severity = drift.Warning
		}
		if len(list) != 1 || list[0].Key != c.key || list[0].Evidence != c.evidence || list[0].Severity != severity || list[0].Call != r.Call {
			t.Errorf("%s: %+v", c.what, list)
		}
		calls = append(calls, string(r.Call))
	}
	packets, err := h.Ledger.Packets(ctx(), ledger.Query{Kind: ledger.KindDrift, Limit: 100})
	must(t, err)
	seen := map[string]bool{}
	for _, p := range packets {
		var one packet.Drift
		must(t, json.Unmarshal(p.Body, &one))
		seen[string(p.Call)] = true
	}
	for _, id := range calls {
		if !seen[id] {
			t.Error("the ledger has no event of", id)
		}
	}
	if len(packets) != len(calls) {
		t.Errorf("%d packets of %d attempts", len(packets), len(calls))
	}
}
