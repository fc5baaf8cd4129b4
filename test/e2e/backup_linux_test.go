package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/gateway/backup"
	"github.com/handrail-dev/handrail/test/site"
)

// refuses runs a command that has to be refused with that code and exit code.
func (p *person) refuses(code string, exit int, args ...string) {
	p.t.Helper()
	out, got := p.tries("", append(args, "--json")...)
	if got != exit || !strings.Contains(out, `"`+code+`"`) {
		p.t.Errorf("handrail %s ended with %d, want %d and %s: %s", strings.Join(args, " "), got, exit, code, out)
	}
}

// The commands by which a site is kept and moved, as an admin meets them: what can go wrong has a
// code of its own, and leaves nothing that counts.
func TestBackupAndRestoreByCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the program")
	}
	home := privateDir(t)
	p := &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	in := func(name string) string { return filepath.Join(home, name) }
	p.refuses("not_found", 1, "backup", in("none.backup"), "--to", "age1yt3tfqlfrwdwx0z0ynwplcr6qxcxfaqycuprpmy89nr83ltx74tqdpszlw")
	var ready struct {
		HTTP string `json:"http"`
	}
	p.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	if out, code := p.tries("four words of nothing\n", "user", "add", "kim", "--role", "viewer"); code != 0 {
		t.Fatalf("%s", out)
	}
	p.does("token", "create", "robot", "--role", "agent")

	// While the gateway runs, by a passphrase and by a key.
	must(t, os.WriteFile(in("passphrase"), []byte("correct horse battery\n"), 0o600))
	must(t, os.WriteFile(in("wrong"), []byte("correct horse batterz\n"), 0o600))
	must(t, os.WriteFile(in("short"), []byte("horse\n"), 0o600))
	p.does("backup", in("a.backup"), "--passphrase-file", in("passphrase"))
	public := strings.TrimSpace(p.does("backup", "key", in("key")))
	p.does("backup", in("b.backup"), "--to", public)
	for _, name := range []string{"a.backup", "b.backup", "key"} {
		info, err := os.Stat(in(name))
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
	p.refuses("invalid_request", 2, "backup", in("c.backup"), "--passphrase-file", in("short"))
	p.refuses("invalid_request", 2, "backup", in("c.backup"), "--to", "age1nothing")
	p.refuses("conflict", 1, "backup", in("a.backup"), "--passphrase-file", in("passphrase"))
	p.refuses("conflict", 1, "backup", "key", in("key"))
	p.refuses("conflict", 1, "restore", in("a.backup"), "--passphrase-file", in("passphrase")) // this data directory has a gateway

	// Checked and refused.
	if out := p.does("restore", in("a.backup"), "--check", "--passphrase-file", in("passphrase")); !strings.Contains(out, "is whole") {
		t.Errorf("%s", out)
	}
	to := func(name string) []string { return []string{"--data", in(name)} }
	p.refuses("backup_locked", 5, append(to("x"), "restore", in("a.backup"), "--passphrase-file", in("wrong"))...)
	p.refuses("backup_locked", 5, append(to("x"), "restore", in("b.backup"), "--passphrase-file", in("passphrase"))...)
	p.refuses("invalid_request", 2, append(to("x"), "restore", in("b.backup"), "--key", in("passphrase"))...)
	p.refuses("not_found", 1, append(to("x"), "restore", in("nosuch"), "--key", in("key"))...)
	whole, err := os.ReadFile(in("b.backup"))
	must(t, err)
	for _, size := range []int{0, 10, 150, 300, len(whole) / 2, len(whole) - 1} {
		must(t, os.WriteFile(in("short.backup"), whole[:size], 0o600))
		p.refuses("backup_damaged", 7, append(to("x"), "restore", in("short.backup"), "--key", in("key"))...)
	}
	must(t, os.WriteFile(in("short.backup"), append(bytes.Clone(whole), 'x'), 0o600))
	p.refuses("backup_damaged", 7, append(to("x"), "restore", in("short.backup"), "--key", in("key"))...)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1000] ^= 1
	must(t, os.WriteFile(in("flipped.backup"), flipped, 0o600))
	p.refuses("backup_damaged", 7, append(to("x"), "restore", in("flipped.backup"), "--key", in("key"))...)
	if left, err := os.ReadDir(in("x")); err == nil && len(left) > 0 {
		t.Errorf("refused restores left %v", left)
	}

	// The site elsewhere: the same people, tokens and record.
	p.does(append(to("y"), "restore", in("b.backup"), "--key", in("key"))...)
	moved := &person{t: t, program: p.program, env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+in("y"))}
	moved.leaves(&ready, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	if out := moved.does("user", "list") + moved.does("token", "list"); !strings.Contains(out, "kim") || !strings.Contains(out, "robot") {
		t.Errorf("the restored site has not whom it had: %s", out)
	}
	if out := moved.does("ledger", "verify"); !strings.Contains(out, "verif") {
		t.Errorf("%s", out)
	}
	if out := moved.does("ledger", "show", "--json"); !strings.Contains(out, "gateway.site.restored") {
		t.Errorf("the record does not say that the site was restored: %s", out)
	}
}

// stopped is a folder of a gateway that does not run, with a file that takes a while to pack.
func stopped(t *testing.T) (p *person, in func(string) string, size int) {
	t.Helper()
	home := privateDir(t)
	p = &person{t: t, program: filepath.Join(home, "handrail"), env: append(os.Environ(), "HOME="+home, "HANDRAIL_DATA="+filepath.Join(home, "site"))}
	site.Program(t, p.program)
	in = func(name string) string { return filepath.Join(home, name) }
	gateway := exec.Command(p.program, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--json")
	gateway.Env = p.env
	out, err := gateway.StdoutPipe()
	must(t, err)
	must(t, gateway.Start())
	var first json.RawMessage
	must(t, json.NewDecoder(out).Decode(&first))
	must(t, gateway.Process.Signal(os.Interrupt))
	must(t, gateway.Wait())
	size = 12 << 20
	noise := make([]byte, size)
	rand.NewChaCha8([32]byte{7}).Read(noise)
	must(t, os.MkdirAll(in("site/gateway/artifacts"), 0o700))
	must(t, os.WriteFile(in("site/gateway/artifacts/noise"), noise, 0o600))
	must(t, os.WriteFile(in("passphrase"), []byte("correct horse battery\n"), 0o600))
	return p, in, size
}

// Killed in the middle, a backup is no file, and a restore is no gateway; what they left is in
// nobody's way.
func TestBackupAndRestoreAreKilled(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	p, in, size := stopped(t)

	// The reader of a pipe holds the program up in the middle of it.
	cmd := exec.Command(p.program, "backup", "-", "--passphrase-file", in("passphrase"))
	cmd.Env = p.env
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	_, err = out.Read(make([]byte, 100))
	must(t, err)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	snapshot := in("site/gateway/" + backup.SnapshotName)
	if _, err := os.Stat(snapshot); err != nil {
		t.Fatalf("killed too late to see anything: %v", err)
	}
	p.does("backup", in("a.backup"), "--passphrase-file", in("passphrase"))
	if _, err := os.Stat(snapshot); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy of the store that a killed backup left is there still: %v", err)
	}
	if out := p.does("restore", in("a.backup"), "--check", "--passphrase-file", in("passphrase")); !strings.Contains(out, "is whole") {
		t.Errorf("%s", out)
	}

	// A pipe that stops in the middle holds up a restore.
	whole, err := os.ReadFile(in("a.backup"))
	must(t, err)
	must(t, unix.Mkfifo(in("pipe"), 0o600))
	cmd = exec.Command(p.program, "restore", in("pipe"), "--passphrase-file", in("passphrase"), "--data", in("y"))
	cmd.Env = p.env
	must(t, cmd.Start())
	pipe, err := os.OpenFile(in("pipe"), os.O_WRONLY, 0)
	must(t, err)
	_, err = pipe.Write(whole[:size/2])
	must(t, err)
	for deadline := time.Now().Add(site.Within); ; time.Sleep(5 * time.Millisecond) {
		if left, err := os.ReadDir(in("y/gateway.restoring")); err == nil && len(left) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("slow: the restore does not begin")
		}
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	must(t, pipe.Close())
	p.refuses("conflict", 1, "gateway", "--http", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--data", in("y"))
	p.does("restore", in("a.backup"), "--passphrase-file", in("passphrase"), "--data", in("y"))
	if _, err := os.Stat(in("y/gateway.restoring")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the killed restore left is there still: %v", err)
	}
	if out := p.does("ledger", "verify", "--data", in("y")); !strings.Contains(out, "verif") {
		t.Errorf("%s", out)
	}
}

// On a full disk, and with a store of a newer program, both commands say so by their codes.
func TestBackupAndRestoreWithoutRoomOrVersion(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the program")
	}
	p, in, size := stopped(t)
	p.does("backup", in("a.backup"), "--passphrase-file", in("passphrase"))
	small := privateDir(t)
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Logf("a disk to fill up needs the right to mount: %v", err)
	} else {
		defer func() { must(t, unix.Unmount(small, unix.MNT_DETACH)) }()
		p.refuses("disk_full", 1, "backup", filepath.Join(small, "a.backup"), "--passphrase-file", in("passphrase"))
		p.refuses("disk_full", 1, "restore", in("a.backup"), "--passphrase-file", in("passphrase"), "--data", filepath.Join(small, "y"))
		left, err := filepath.Glob(filepath.Join(small, "*", "*"))
		must(t, err)
		files, err := filepath.Glob(filepath.Join(small, "*.backup*"))
		must(t, err)
		if len(left)+len(files) > 0 {
			t.Errorf("left on the full disk, which had %d bytes to take: %v %v", size, left, files)
		}
	}
	db, err := sql.Open("sqlite", in("site/gateway/store.db"))
	must(t, err)
	_, err = db.Exec("INSERT INTO schema_migration (room, version, digest) VALUES ('ledger', 999, 'x')")
	must(t, err)
	must(t, db.Close())
	p.does("backup", in("newer.backup"), "--passphrase-file", in("passphrase"))
	p.refuses("version_skew", 1, "restore", in("newer.backup"), "--passphrase-file", in("passphrase"), "--data", in("z"))
	p.refuses("version_skew", 1, "restore", in("newer.backup"), "--passphrase-file", in("passphrase"), "--check")
	if left, err := os.ReadDir(in("z")); err == nil && len(left) > 0 {
		t.Errorf("a refused restore left %v", left)
	}
}
