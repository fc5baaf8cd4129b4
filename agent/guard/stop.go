package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// StopSwitch is the node's durable stop state. Whoever pulls it last wins by
// epoch: the epoch only grows, and a ticket from an older epoch never runs.
type StopSwitch struct {
	path string

	mu      sync.Mutex
	state   stopState
	onStop  func()
	changed chan struct{}
}

type stopState struct {
	Version int    `json:"version"`
	Epoch   uint64 `json:"epoch"`
	Stopped bool   `json:"stopped"`
}

// OpenStopSwitch reads the state kept at path (a missing file is "not stopped",
// epoch 0). onStop is called, outside the lock, whenever the switch goes on; it
// must end what runs.
func OpenStopSwitch(path string, onStop func()) (*StopSwitch, error) {
	s := &StopSwitch{path: path, onStop: onStop, changed: make(chan struct{})}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("stop switch: %w", err)
	}
	if err := json.Unmarshal(data, &s.state); err != nil {
		// Unreadable means stopped: a damaged switch must not release the device.
		s.state = stopState{Version: 1, Stopped: true}
	}
	return s, nil
}

// State gives the epoch and whether the device is stopped.
func (s *StopSwitch) State() (epoch uint64, stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Epoch, s.state.Stopped
}

// Changed is closed at the next change; ask again for the one after.
func (s *StopSwitch) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Set turns the switch at an epoch of the gateway's. An older epoch is ignored;
// the same epoch can only stop, never release. The state is durable before Set
// returns; stopping takes effect even when it could not be written.
func (s *StopSwitch) Set(epoch uint64, stopped bool) error {
	s.mu.Lock()
	if epoch < s.state.Epoch || (epoch == s.state.Epoch && !stopped) {
		s.mu.Unlock()
		return nil
	}
	next := stopState{Version: 1, Epoch: epoch, Stopped: stopped}
	err := s.write(next)
	if err != nil && !stopped {
		s.mu.Unlock()
		return err
	}
	s.state = next
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if stopped && s.onStop != nil {
		s.onStop()
	}
	return err
}

// Reload takes over what another process of the owner's wrote to the file, by the
// same rules as Set. A file that is not there or can not be read changes nothing.
func (s *StopSwitch) Reload() {
	data, err := os.ReadFile(s.path)
	var kept stopState
	if err != nil || json.Unmarshal(data, &kept) != nil {
		return
	}
	s.mu.Lock()
	if kept.Epoch < s.state.Epoch || kept.Epoch == s.state.Epoch && (!kept.Stopped || s.state.Stopped) {
		s.mu.Unlock()
		return
	}
	s.state = kept
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if kept.Stopped && s.onStop != nil {
		s.onStop()
	}
}

func (s *StopSwitch) write(state stopState) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	dir := filepath.Dir(s.path)
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
		err = os.Rename(f.Name(), s.path)
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
