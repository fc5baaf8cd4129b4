package datadir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/client"
)

// Dir is where gateway and node keep their state. Layout:
//
//	gateway/  site.key gateway.key seal.key store.db policy/ admin.token gateway.json
//	node/     identity.json node.key journal/ owner.cedar node.json
//
// `handrail up` keeps both below one directory.
type Dir string

// Gateway is the path of a file of the gateway.
func (d Dir) Gateway(name ...string) string {
	return filepath.Join(append([]string{string(d), "gateway"}, name...)...)
}

// Node is the path of a file of the node.
func (d Dir) Node(name ...string) string {
	return filepath.Join(append([]string{string(d), "node"}, name...)...)
}

// The files of the gateway that commands read.
func (d Dir) PolicyDir() string   { return d.Gateway("policy") }
func (d Dir) StorePath() string   { return d.Gateway("store.db") }
func (d Dir) TokenPath() string   { return d.Gateway("admin.token") }
func (d Dir) RunningPath() string { return d.Gateway("gateway.json") }

// Folders are where this program keeps its data; a link may have put gateway and node elsewhere.
func (d Dir) Folders() []string {
	var all []string
	for _, dir := range []string{string(d), d.Gateway(), d.Node()} {
		if full, err := filepath.Abs(dir); err == nil {
			all = append(all, full)
		}
	}
	return all
}

// Make creates dir (below the data directory) with every missing parent, each
// open to its owner only, and refuses one that others can enter.
func (d Dir) Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if info, bad := os.Stat(string(d)); bad == nil && !info.IsDir() {
			return terminal.UsageHint("Name a directory with --data; it is made where there is none.", "%s is a file", d)
		}
		return err
	}
	return Private(dir)
}

// Given are the arguments that name this data directory to another command; none where every
// command takes it by itself.
func (d Dir) Given() []string {
	if d == "" {
		return nil
	}
	if own, err := filepath.Abs(os.Getenv("HANDRAIL_DATA")); err == nil && os.Getenv("HANDRAIL_DATA") != "" && own == string(d) {
		return nil
	}
	if usual, err := defaultDataDir(runtime.GOOS, os.Getenv); err == nil && usual == d && os.Getenv("HANDRAIL_DATA") == "" {
		return nil
	}
	return []string{"--data", string(d)}
}

// Command returns a command of this program for d, as a shell reads it.
func (d Dir) Command(argv ...string) string {
	return command.Join(append(append([]string{"handrail"}, argv...), d.Given()...)...)
}

// Restoring is where a backup is unpacked before it takes the gateway's place.
func (d Dir) Restoring() string { return filepath.Join(string(d), "gateway.restoring") }

// HalfRestored refuses a data directory in which a restore began and did not end: a start would
// make another site there.
func (d Dir) HalfRestored() error {
	if _, err := os.Stat(d.Restoring()); err != nil {
		return nil
	}
	if _, err := os.Stat(d.Gateway()); err == nil {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeConflict, "A restore in %s did not end.", d).
		WithHint("Run it again, or remove the folder gateway.restoring there for a new site.")
}

// Private refuses a directory that other users can enter.
func Private(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to other users (mode %04o); run: chmod 700 %q", dir, info.Mode().Perm(), dir)
	}
	return nil
}

// defaultDataDir is the state directory of the person who runs the program:
// $XDG_STATE_HOME/handrail, or ~/.local/state/handrail, or %LocalAppData%\handrail
// on Windows. goos and getenv are arguments so that it can be tested anywhere.
func defaultDataDir(goos string, getenv func(string) string) (Dir, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return Dir(filepath.Join(dir, "handrail")), nil
	}
	home, below := getenv("HOME"), filepath.Join(".local", "state", "handrail")
	switch goos {
	case "windows":
		if dir := getenv("LOCALAPPDATA"); dir != "" {
			return Dir(filepath.Join(dir, "handrail")), nil
		}
		home = getenv("USERPROFILE")
	case "darwin":
		below = filepath.Join("Library", "Application Support", "handrail")
	}
	if home == "" {
		return "", errors.New("no home directory is set; give --data DIR")
	}
	return Dir(filepath.Join(home, below)), nil
}

// Running is gateway.json: where the gateway of this data directory
// listens while it runs.
type Running struct {
	HTTP string `json:"http"` // base URL of the HTTP surface, such as "http://127.0.0.1:7480"
	QUIC string `json:"quic"` // UDP address nodes dial, such as "127.0.0.1:7443"
	PID  int    `json:"pid"`
	// Cert is the file with the certificate of HTTPS: it is the one to be trusted, and
	// read when it is needed, because it may be renewed.
	Cert string `json:"certificate,omitempty"`
	URL  string `json:"url,omitempty"` // for other devices, if the gateway was told
}

// Place is where the gateway is to be called, with its certificate's fingerprint.
func (r Running) Place() (*url.URL, client.Pin, error) {
	base, err := client.ParseAddress(r.HTTP)
	if err != nil || r.Cert == "" {
		return base, client.Pin{}, err
	}
	pin, err := client.PinFile(r.Cert)
	return base, pin, err
}

// WriteRunning replaces gateway.json as one step, so that a reader never sees half of it.
func (d Dir) WriteRunning(r Running) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := d.RunningPath() + ".new"
	// The file that an earlier run left is stale, for this one holds the data directory, and room
	// that a full disk still has: it is not emptied first.
	_ = os.Rename(d.RunningPath(), temp)
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(temp, d.RunningPath())
}

// ClearRunning takes gateway.json away if this process wrote it. Its room stays, for the
// next start.
func (d Dir) ClearRunning() {
	if r, err := d.ReadRunning(); err == nil && r.PID == os.Getpid() {
		_ = os.Rename(d.RunningPath(), d.RunningPath()+".new")
	}
}

// ReadRunning reads gateway.json; an error with a hint: no gateway runs here.
func (d Dir) ReadRunning() (Running, error) {
	var r Running
	data, err := os.ReadFile(d.RunningPath())
	if errors.Is(err, fs.ErrNotExist) {
		return r, &terminal.ExitError{Code: terminal.ExitUnreachable, Err: command.Advise(capabilities.Errorf(capabilities.CodeNotFound,
			"no gateway is running on %s", d),
			"Start one with ", command.Here("up"), " or ", command.Here("gateway"), ", or name its data directory with --data.")}
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", d.RunningPath(), err)
	}
	return r, nil
}

// Of returns the data directory the command was told, by flag or in
// HANDRAIL_DATA, or the default.
func Of(cmd *cobra.Command) (Dir, error) {
	if dir := cmp.Or(terminal.FlagsOf(cmd).Data, os.Getenv("HANDRAIL_DATA")); dir != "" {
		dir, err := filepath.Abs(dir) // what is told of it holds elsewhere, too
		return Dir(dir), err
	}
	return defaultDataDir(runtime.GOOS, os.Getenv)
}

// AgentTokenPath is the token for agents. Where there is none, nobody speaks for
// agents: an admin's token never takes its place.
func (d Dir) AgentTokenPath() string { return d.Gateway("agent.token") }
