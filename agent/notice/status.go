package notice

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
)

// State is what the device is doing, in one word.
type State string

// The states.
const (
	StateInUse   State = "in_use"
	StateIdle    State = "idle"
	StateStopped State = "stopped"
	StateGone    State = "not_running"
)

// Status is the status file, status.json in the node's folder. It is for people,
// scripts and panels; it holds no argument and no result of a call.
type Status struct {
	Version   int       `json:"version"`
	State     State     `json:"state"`
	Text      string    `json:"text"` // all of it in words, a sentence a line
	At        time.Time `json:"at"`   // when that became so
	Uses      []Use     `json:"uses"`
	StoppedBy []string  `json:"stopped_by,omitempty"` // person, gateway
	Connected bool      `json:"connected"`
	Gateway   string    `json:"gateway,omitempty"`
	stop      string    // how to stop it, in words
}

// Use is one line: who uses what. Running becomes false a second after the last call
// ended, and the line goes two seconds after that.
type Use struct {
	Principal string    `json:"principal"`
	What      string    `json:"what"` // in words
	Tool      string    `json:"tool"` // of the latest call
	Lane      string    `json:"lane"`
	Since     time.Time `json:"since"`
	Running   bool      `json:"running"`
}

// same reports whether two say the same, whenever they do.
func (s *Status) same(t Status) bool {
	return s.State == t.State && s.Text == t.Text && s.Connected == t.Connected && s.Gateway == t.Gateway &&
		slices.Equal(s.StoppedBy, t.StoppedBy) &&
		slices.EqualFunc(s.Uses, t.Uses, func(a, b Use) bool { a.Tool, b.Tool = "", ""; return a == b })
}

// status makes the words of what is in use.
func (b *Board) status(rows []use) Status {
	n := b.opts.Node()
	s := Status{Version: 1, State: StateIdle, At: b.opts.Now().
		UTC(), Uses: []Use{}, Connected: n.Connected, Gateway: n.Gateway, stop: b.howToStop()}
	var lines []string
	for i, u := range rows {
		if i == maxRows {
			lines = append(lines, fmt.Sprintf("And %d more.", len(rows)-maxRows))
			break
		}
		s.State = StateInUse
		s.Uses = append(s.Uses, Use{
			Principal: name(string(u.who)), What: u.what, Tool: name(string(u.tool)), Lane: name(string(u.lane)), Since: u.since.UTC(),
			Running: u.running > 0,
		})
		verb := "uses"
		if isLive(u.what) && u.running > 0 {
			verb = "watches"
			if u.running > 1 {
				verb = fmt.Sprintf("watches (%d times)", u.running)
			}
		}
		switch {
		case u.running > 0 && u.what == film:
			verb = "records"
		case u.what == film:
			verb = "has just recorded"
		case u.running == 0:
			verb = "has just used"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s (since %s).", name(string(u.who)), verb, u.what, u.since.Local().Format("15:04:05")))
	}
	if n.Stopped {
		s.StoppedBy = append(s.StoppedBy, "person")
		lines = append(lines, "This device is stopped. "+command.Words(capabilities.Action{Key: capabilities.ActionResumeNode}))
	}
	if n.SiteStopped {
		s.StoppedBy = append(s.StoppedBy, "gateway")
		lines = append(lines, "The gateway is stopped. "+command.Words(capabilities.Action{Key: capabilities.ActionResumeSite}))
	}
	switch {
	case len(s.StoppedBy) > 0:
		s.State = StateStopped
	case s.State == StateInUse:
		lines = append(lines, s.stop)
	default:
		lines = append(lines, "Nothing is in use.")
	}
	if !n.Connected {
		lines = append(lines, "The gateway is not connected.")
	}
	s.Text = strings.Join(lines, "\n")
	return s
}

func (b *Board) howToStop() string {
	how := command.Words(capabilities.Action{Key: capabilities.ActionStopNode})
	if b.opts.HotKey != "" {
		return b.opts.HotKey + " stops it at once. " + how
	}
	return how
}

// write replaces the file as one step, so that a reader never sees half of it. It is
// news, not a record: nothing is synced.
func (s Status) write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".status-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // no-op after the rename
	_, err = f.Write(append(data, '\n'))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// touch says that the node is still there.
func touch(path string, now time.Time) { _ = os.Chtimes(path, now, now) }

// maxStatus bounds what Read takes in.
const maxStatus = 1 << 20

// Read returns what the file at path says. A file that was not renewed lately, and one
// that is not there, is that of a node that is not running.
func Read(path string, now time.Time) (Status, error) {
	gone := Status{Version: 1, State: StateGone, Text: "The node is not running.", Uses: []Use{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return gone, nil
	}
	if err != nil {
		return Status{}, err
	}
	if info.Size() > maxStatus {
		return Status{}, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s is larger than 1 MiB", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Status{}, err
	}
	var s Status
	if err := json.Unmarshal(data, &s); err != nil {
		return Status{}, fmt.Errorf("%s: %w", path, err)
	}
	if age := now.Sub(info.ModTime()); age > stale {
		gone.At = info.ModTime().UTC()
		gone.Text = fmt.Sprintf("The node is not running; it was last seen %s ago.", capabilities.Spoken(age))
		return gone, nil
	}
	return s, nil
}
