//go:build linux

package wayland

import (
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/test/desk"
)

// slowly is a compositor that takes events of a mouse and answers when it is told to.
type slowly struct {
	mu      sync.Mutex
	pointer uint32
	pressed []pressing
	late    bool
	owed    []uint32 // the callbacks that were not called while late
	sock    net.Conn
}

// pressing is one event of a button.
type pressing struct {
	at, code uint32
	down     bool
}

func startSlowly(t *testing.T) (*slowly, *Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "wayland-0")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowly{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if c, err := l.Accept(); err == nil {
			s.serve(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-over })
	c, err := Dial(t.Context(), Options{Display: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

func (s *slowly) serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	s.sock = c
	s.mu.Unlock()
	b := make([]byte, 4096)
	var rest []byte
	for {
		n, err := c.Read(b) // descriptors that come along are closed by the system
		if err != nil {
			return
		}
		rest = append(rest, b[:n]...)
		for {
			m, more, err := split(rest)
			if err != nil || m == nil {
				break
			}
			rest = more
			s.take(m)
		}
	}
}

// take carries out one request.
func (s *slowly) take(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var managers = []string{wlSeat.name, virtualPointerManager.name, virtualKeyboardManager.name}
	switch {
	case m.object == 1 && m.opcode == displayGetRegistry:
		id := m.uint()
		for i, name := range managers {
			s.tell(id, registryGlobal, uint32(i+1), name, uint32(1))
		}
	case m.object == 1 && m.opcode == displaySync:
		if id := m.uint(); s.late {
			s.owed = append(s.owed, id)
		} else {
			s.call(id)
		}
	case m.object == s.pointer && m.opcode == pointerButton:
		s.pressed = append(s.pressed, pressing{m.uint(), m.uint(), m.uint() == 1})
	case m.opcode == pointersCreate && s.pointer == 0 && m.object > registryID:
		m.uint() // the seat
		s.pointer = m.uint()
	}
}

func (s *slowly) call(callback uint32) {
	s.tell(callback, 0, uint32(0))
	s.tell(1, displayDeleteID, callback)
}

func (s *slowly) tell(object uint32, opcode uint16, args ...any) {
	b, _, err := encode(nil, nil, object, opcode, args...)
	if err == nil {
		_, _ = s.sock.Write(b)
	}
}

// answers has it answer late, or all that it owes.
func (s *slowly) answers(late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
	for _, id := range s.owed {
		s.call(id)
	}
	s.owed = nil
}

func (s *slowly) events() []pressing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pressed)
}

// A double click does not wait for the compositor between its events, and its times say
// that it is one.
func TestClickIsOneWriting(t *testing.T) {
	s, c := startSlowly(t)
	in, err := NewInput(t.Context(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.answers(true)
	began := now()
	done := make(chan error)
	go func() { done <- in.Click(t.Context(), platform.ButtonRight, 3, 3*time.Millisecond) }()
	desk.Await(t, "three clicks before an answer", func() bool { return len(s.events()) == 6 })
	select {
	case err := <-done:
		t.Errorf("it did not wait for the compositor: %v", err)
	default:
	}
	s.answers(false)
	if err := <-done; err != nil {
		t.Error(err)
	}
	all := s.events()
	for i, e := range all {
		if e.code != buttonCodes[platform.ButtonRight] || e.down != (i%2 == 0) || e.at != all[0].at+[]uint32{0, 1, 3, 4, 6, 7}[i] {
			t.Errorf("event %d: %+v of %+v", i, e, all)
		}
	}
	if int32(all[0].at-began) < 0 || int32(now()-all[5].at) < 0 {
		t.Errorf("from %d to %d: %+v", began, now(), all)
	}
	// A button that is down is not pressed again, nor let go.
	if err := in.Button(t.Context(), platform.ButtonLeft, true); err != nil {
		t.Fatal(err)
	}
	if err := in.Click(t.Context(), platform.ButtonLeft, 2, 0); err == nil || len(s.events()) != 7 {
		t.Errorf("%v, %+v", err, s.events())
	}
	if err := in.Release(t.Context()); err != nil || len(s.events()) != 8 {
		t.Errorf("%v, %+v", err, s.events())
	}
}
