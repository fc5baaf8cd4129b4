package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/client"
)

// dataDir is where gateway and node keep their state. Layout:
//
//	gateway/  site.key gateway.key seal.key store.db policy/ admin.token gateway.json
//	node/     identity.json node.key journal/ owner.cedar node.json
//
// `handrail up` keeps both below one directory.
type dataDir string

func (d dataDir) gateway(name ...string) string {
	return filepath.Join(append([]string{string(d), "gateway"}, name...)...)
}

func (d dataDir) node(name ...string) string {
	return filepath.Join(append([]string{string(d), "node"}, name...)...)
}

func (d dataDir) policyDir() string   { return d.gateway("policy") }
func (d dataDir) storePath() string   { return d.gateway("store.db") }
func (d dataDir) tokenPath() string   { return d.gateway("admin.token") }
func (d dataDir) runningPath() string { return d.gateway("gateway.json") }

// make creates dir (below the data directory) with every missing parent, each
// open to its owner only, and refuses one that others can enter.
func (d dataDir) make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		if info, bad := os.Stat(string(d)); bad == nil && !info.IsDir() {
			return usageHint("Name a directory with --data; it is made where there is none.", "%s is a file", d)
		}
		return err
	}
	return private(dir)
}

// given are the arguments that name this data directory to another command; none where every
// command takes it by itself.
func (d dataDir) given() []string {
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

// command returns a command of this program for d, as a shell reads it.
func (d dataDir) command(argv ...string) string {
	return command.Join(append(append([]string{"handrail"}, argv...), d.given()...)...)
}

// private refuses a directory that other users can enter.
func private(dir string) error {
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
func defaultDataDir(goos string, getenv func(string) string) (dataDir, error) {
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return dataDir(filepath.Join(dir, "handrail")), nil
	}
	home, below := getenv("HOME"), filepath.Join(".local", "state", "handrail")
	switch goos {
	case "windows":
		if dir := getenv("LOCALAPPDATA"); dir != "" {
			return dataDir(filepath.Join(dir, "handrail")), nil
		}
		home = getenv("USERPROFILE")
	case "darwin":
		below = filepath.Join("Library", "Application Support", "handrail")
	}
	if home == "" {
		return "", errors.New("no home directory is set; give --data DIR")
	}
	return dataDir(filepath.Join(home, below)), nil
}

// runningGateway is gateway.json: where the gateway of this data directory
// listens while it runs.
type runningGateway struct {
	HTTP string `json:"http"` // base URL of the HTTP surface, such as "http://127.0.0.1:7480"
	QUIC string `json:"quic"` // UDP address nodes dial, such as "127.0.0.1:7443"
	PID  int    `json:"pid"`
	// Cert is the file with the certificate of HTTPS: it is the one to be trusted, and
	// read when it is needed, because it may be renewed.
	Cert string `json:"certificate,omitempty"`
	URL  string `json:"url,omitempty"` // for other devices, if the gateway was told
}

// place is where the gateway is to be called, with its certificate's fingerprint.
func (r runningGateway) place() (*url.URL, client.Pin, error) {
	base, err := client.ParseAddress(r.HTTP)
	if err != nil || r.Cert == "" {
		return base, client.Pin{}, err
	}
	pin, err := client.PinFile(r.Cert)
	return base, pin, err
}

// writeRunning replaces gateway.json as one step, so that a reader never sees half of it.
func (d dataDir) writeRunning(r runningGateway) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := d.runningPath() + ".new"
	// The file that an earlier run left is stale, for this one holds the data directory, and room
	// that a full disk still has: it is not emptied first.
	_ = os.Rename(d.runningPath(), temp)
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
	return os.Rename(temp, d.runningPath())
}

// clearRunning takes gateway.json away if this process wrote it. Its room stays, for the
// next start.
func (d dataDir) clearRunning() {
	if r, err := d.readRunning(); err == nil && r.PID == os.Getpid() {
		_ = os.Rename(d.runningPath(), d.runningPath()+".new")
	}
}

func (d dataDir) readRunning() (runningGateway, error) {
	var r runningGateway
	data, err := os.ReadFile(d.runningPath())
	if errors.Is(err, fs.ErrNotExist) {
		return r, &exitError{code: exitUnreachable, err: command.Advise(capabilities.Errorf(capabilities.CodeNotFound,
			"no gateway is running on %s", d),
			"Start one with ", command.Here("up"), " or ", command.Here("gateway"), ", or name its data directory with --data.")}
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("%s: %w", d.runningPath(), err)
	}
	return r, nil
}
