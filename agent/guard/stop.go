package guard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// StopSwitch is the node's durable stop state. It is two switches, and either one
// stops the node: the device's own, which is turned on the device alone (CLI, stop
// keys, its file), and the site's, which is turned at the gateway. So a gateway that
// resumes never releases a device that its person stopped. Each is at an epoch that
// only grows; a ticket from an older epoch never runs.
type StopSwitch struct {
	onTurn func(stopped bool)

	// turning is held over a whole change, the file included, so that the files hold
	// what came last and onTurn is called in order.
	turning sync.Mutex

	mu      sync.Mutex
	own     half
	site    half
	looked  os.FileInfo // the own file as it was read or written last
	changed chan struct{}
}

// half is one of the two switches with the file that keeps it.
type half struct {
	path    string
	state   stopState
	inPlace bool
}

// stopState is a file's content. Site names whose switch it is; empty in the own
// file.
type stopState struct {
	Version int    `json:"version"`
	Epoch   uint64 `json:"epoch"`
	Stopped bool   `json:"stopped"`
	Site    string `json:"site,omitempty"`
}

// newer reports whether to may follow: a later epoch, or a stop at the same one.
// The same epoch never releases.
func (s stopState) newer(to stopState) bool {
	return to.Epoch > s.Epoch || to.Epoch == s.Epoch && to.Stopped && !s.Stopped
}

// OpenStopSwitch reads the own switch kept at path and, beside it, the one of site
// (a missing file is "not stopped", epoch 0; one of another site counts as missing;
// one that cannot be read is "stopped"). onTurn, which may be nil, is called when
// the node stops, and again when neither switch stops it any more. It must end what
// runs and may not turn the switch itself.
func OpenStopSwitch(path, site string, onTurn func(stopped bool)) (*StopSwitch, error) {
	if onTurn == nil {
		onTurn = func(bool) {}
	}
	s := &StopSwitch{onTurn: onTurn, changed: make(chan struct{})}
	s.own.path, s.site.path = path, strings.TrimSuffix(path, ".json")+"-site.json"
	s.site.state.Site, s.site.inPlace = site, true
	for _, h := range []*half{&s.own, &s.site} {
		data, err := os.ReadFile(h.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("stop switch: %w", err)
		}
		var kept stopState
		if err := json.Unmarshal(data, &kept); err != nil {
			// Unreadable means stopped: a damaged switch must not release the device.
			h.state.Stopped = true
			continue
		}
		if kept.Site == h.state.Site {
			h.state = kept
		}
	}
	return s, nil
}

// State returns the own switch: its epoch and whether the person stopped the device.
func (s *StopSwitch) State() (epoch uint64, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own.state.Epoch, s.own.state.Stopped
}

// Site returns the site's switch as this node knows it.
func (s *StopSwitch) Site() (epoch uint64, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.site.state.Epoch, s.site.state.Stopped
}

// Stopped reports whether either switch stops the node.
func (s *StopSwitch) Stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stoppedLocked()
}

func (s *StopSwitch) stoppedLocked() bool { return s.own.state.Stopped || s.site.state.Stopped }

// Changed is closed at the next change; ask again for the one after.
func (s *StopSwitch) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Set turns the own switch. An older epoch is ignored; the same epoch can only
// stop, never release. Stopping takes effect at once and is durable when Set
// returns, or an error says why not; a release is durable before it takes effect.
func (s *StopSwitch) Set(epoch uint64, stopped bool) error {
	return s.turn(&s.own, stopState{Version: 1, Epoch: epoch, Stopped: stopped}, true)
}

// SetSite turns the site's switch, by the same rules.
func (s *StopSwitch) SetSite(epoch uint64, stopped bool) error {
	return s.turn(&s.site, stopState{Version: 1, Epoch: epoch, Stopped: stopped}, true)
}

func (s *StopSwitch) turn(h *half, to stopState, write bool) error {
	s.turning.Lock()
	defer s.turning.Unlock()
	s.mu.Lock()
	to.Site = h.state.Site
	known := !h.state.newer(to)
	s.mu.Unlock()
	if known {
		return nil
	}
	if !to.Stopped && write {
		if err := h.write(to); err != nil {
			return err
		}
	}
	s.mu.Lock()
	was := s.stoppedLocked()
	h.state = to
	now := s.stoppedLocked()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if to.Stopped || was && !now {
		s.onTurn(now)
	}
	if to.Stopped && write {
		return h.write(to) // after it took effect: a slow disk must not hold it up
	}
	return nil
}

// Look takes over what another process of the owner's wrote to the own file, by the
// same rules as Set. It costs one look at the file's date while nothing changed. A
// file that is not there or cannot be read changes nothing.
func (s *StopSwitch) Look() {
	info, err := os.Stat(s.own.path)
	if err != nil {
		return
	}
	s.mu.Lock()
	same := s.looked != nil && os.SameFile(s.looked, info) && s.looked.ModTime().Equal(info.ModTime()) && s.looked.Size() == info.Size()
	s.looked = info
	s.mu.Unlock()
	if same {
		return
	}
	data, err := os.ReadFile(s.own.path)
	var kept stopState
	if err != nil || json.Unmarshal(data, &kept) != nil || kept.Site != "" {
		return
	}
	_ = s.turn(&s.own, kept, false) // writes nothing, so nothing can fail
}

// siteBytes is the size of the site's file: JSON, filled up with spaces.
const siteBytes = 512

// write makes the state durable. The site's file is written over in place, because
// nobody but this process reads it and a whole site is stopped at once: a block of a
// file that is there costs the disk much less than a new file in its place. A block
// that was torn cannot be read, and so means stopped.
func (h *half) write(state stopState) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if h.inPlace && len(data) <= siteBytes {
		data = append(data, bytes.Repeat([]byte{' '}, siteBytes-len(data))...)
		if overwrite(h.path, data) {
			return nil
		}
	}
	return replace(h.path, data)
}

// overwrite writes data over a file of its size, and reports whether that is on disk.
func overwrite(path string, data []byte) bool {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return false
	}
	defer f.Close() // synced: nothing is lost
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(data)) {
		return false
	}
	_, err = f.WriteAt(data, 0)
	return err == nil && syncData(f) == nil
}

// replace puts a new file in the place of the one at path.
func replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".stop-*")
	if err != nil {
		return fmt.Errorf("stop switch: %w", err)
	}
	defer os.Remove(f.Name()) // no-op after the rename
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("stop switch: %w", err)
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // not every system can sync a folder
		_ = d.Close()
	}
	return nil
}
