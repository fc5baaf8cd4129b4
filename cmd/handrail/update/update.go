package update

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// startFor bounds how long a new program may take to say its version.
const startFor = 30 * time.Second

// Job is one update.
type Job struct {
	URL     string
	Key     ed25519.PublicKey
	Program string // the file that is replaced
	Version string // of the program in it
	Check   bool   // look only
	Most    string // the highest version that is taken; "": any

	// Try tries the new program before it is put in place; nil: nobody does.
	Try func(ctx context.Context, program string) error
	// Restart has what runs run anew, from the file; nil: nothing runs.
	Restart func(context.Context) error
	// Ready reports whether what runs is ready, in that version, within some time.
	Ready func(ctx context.Context, version string) error
	// Say tells of a step.
	Say func(string)
}

// Result says what came of it.
type Result struct {
	From   string `json:"from"`
	To     string `json:"to"`
	State  string `json:"state"`            // current, available, updated
	Before string `json:"before,omitempty"` // the file of the version before
}

// Run does it.
func (j Job) Run(ctx context.Context) (Result, error) {
	res := Result{From: j.Version}
	now, ok := parseVersion(j.Version)
	if !ok {
		return res, noRelease(j.Version)
	}
	if err := others(j.Program); err != nil && !j.Check {
		return res, err
	}
	s, err := newSource(j.URL)
	if err != nil {
		return res, err
	}
	m, err := j.metadata(ctx, s)
	if err != nil {
		return res, err
	}
	res.To = m.Version
	offered, _ := parseVersion(m.Version) // Verify has read it
	switch {
	case m.Version == strings.TrimPrefix(j.Version, "v"):
		res.State = "current"
		return res, nil
	case !newer(offered, now):
		return res, refused("Version %s, which is offered, is older than this program (%s).", m.Version, j.Version).
			WithHint("An older version is only ever installed by hand, with a backup of its time.")
	}
	if j.Most != "" && Newer(m.Version, j.Most) {
		return res, refused("Version %s, which is offered, is newer than the gateway (%s).", m.Version, j.Most).
			WithHint("The device takes it once its gateway is of that version.")
	}
	f, ok := m.Files[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return res, capabilities.Errorf(capabilities.CodeNotSupported, "Version %s has no program for %s/%s.",
			m.Version, runtime.GOOS, runtime.GOARCH).
			WithHint("Build it from its sources.")
	}
	if res.State = "available"; j.Check {
		return res, nil
	}
	j.Say("fetching " + f.Name)
	staged, err := s.stage(ctx, f, j.Program)
	if err != nil {
		return res, err
	}
	defer func() { _ = os.Remove(staged) }()
	if err := is(ctx, staged, m.Version); err != nil {
		return res, err
	}
	if j.Try != nil {
		if err := j.Try(ctx, staged); err != nil {
			return res, err
		}
	}
	res.Before = j.Program + ".before"
	if err := swap(staged, j.Program, res.Before); err != nil {
		return res, err
	}
	j.Say("version " + m.Version + " is in place")
	res.State = "updated"
	if j.Restart == nil {
		return res, nil
	}
	err = j.Restart(ctx)
	if err == nil {
		err = j.Ready(ctx, m.Version)
	}
	if err == nil {
		return res, nil
	}
	res.State = "available"
	return res, j.back(context.WithoutCancel(ctx), res, err)
}

func noRelease(version string) error {
	return capabilities.Errorf(capabilities.CodeNotSupported, "This program (%s) is no release, so nothing says what is newer.", version).
		WithHint("Install a release by hand once.")
}

func (j Job) metadata(ctx context.Context, s *source) (Metadata, error) {
	ctx, done := context.WithTimeout(ctx, metadataFor)
	defer done()
	var text bytes.Buffer
	if _, err := s.get(ctx, s.metadata, &text, maxMetadata); err != nil {
		return Metadata{}, err
	}
	return Verify(text.Bytes(), j.Key, time.Now())
}

// back puts the version before in its place again, and says what came of that.
func (j Job) back(ctx context.Context, res Result, why error) error {
	j.Say("it does not become ready; going back to " + res.From)
	err := os.Rename(res.Before, j.Program)
	if err == nil {
		err = j.Restart(ctx)
	}
	if err == nil {
		err = j.Ready(ctx, res.From)
	}
	said := strings.TrimSuffix(capabilities.AsError(why).PublicMessage(), ".")
	if err != nil {
		return capabilities.Wrap(capabilities.CodeUpdateRefused, errors.Join(why, err),
			fmt.Sprintf("Version %s did not become ready (%s), and neither does %s again.", res.To, said, res.From)).
			WithHint("Read the log. If it says version_skew, restore the backup from before the update.")
	}
	return capabilities.Wrap(capabilities.CodeUpdateRefused, why,
		fmt.Sprintf("Version %s did not become ready (%s), so %s is in its place again and runs.", res.To, said, res.From)).
		WithHint("Read the log for why, before you try again.")
}

// is has the staged program say which version of which system it is.
func is(ctx context.Context, file, version string) error {
	ctx, done := context.WithTimeout(ctx, startFor)
	defer done()
	cmd := exec.CommandContext(ctx, file, "version", "--json")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var said struct{ Version, OS, Arch string }
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil {
		return capabilities.Wrap(capabilities.CodeUpdateRefused, err, "The new program does not start here: "+err.Error()+".").
			WithHint("It may be for another system. Ask the publisher.")
	}
	if strings.TrimPrefix(said.Version, "v") != strings.TrimPrefix(version, "v") || said.OS != runtime.GOOS || said.Arch != runtime.GOARCH {
		return refused("The new program says that it is %.40s for %.20s/%.20s, and the metadata %s.", said.Version, said.OS, said.Arch, version).
			WithHint("Do not use it. Ask the publisher.")
	}
	return nil
}

// swap puts staged in the place of program and keeps that one as before. The file is whole at each
// moment: where the system has links the new one takes its name in one step.
func swap(staged, program, before string) error {
	if err := os.Remove(before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(program, before); err != nil || runtime.GOOS == "windows" { // a program that runs keeps its file there
		_ = os.Remove(before)
		if err := os.Rename(program, before); err != nil {
			return err
		}
	}
	if err := os.Rename(staged, program); err != nil {
		return errors.Join(err, os.Rename(before, program))
	}
	return nil
}

// others refuses a program that another keeper of packages put there.
func others(program string) error {
	folder := filepath.ToSlash(filepath.Dir(program))
	switch {
	case strings.Contains(folder+"/", "/node_modules/"):
		return kept("npm", "npm update handrail")
	case folder == "/usr/bin" || folder == "/bin":
		return kept("the system's packages", "the system's own way, such as apt upgrade")
	case strings.Contains(folder, "/Cellar/") || strings.Contains(folder, "/Caskroom/"):
		return kept("Homebrew", "brew upgrade handrail")
	case strings.Contains(folder, "/scoop/apps/"):
		return kept("Scoop", "scoop update handrail")
	}
	return nil
}

func kept(by, way string) error {
	return capabilities.Errorf(capabilities.CodeNotSupported, "This program is kept by %s.", by).WithHint("Update it by " + way + ".")
}
