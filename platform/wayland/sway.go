//go:build linux

package wayland

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// sway speaks with Sway about what no protocol of Wayland tells: where windows are,
// whose they are, and where they are to go.
//
//	"i3-ipc", length:4, kind:4, JSON, in the byte order of the machine
type sway struct{ path string }

const (
	swayMagic     = "i3-ipc"
	swayCommand   = 0
	swaySubscribe = 2
	swayTree      = 4
	swayVersion   = 7

	maxSwayReply = 16 << 20
)

// findSway returns the socket of the Sway that this session is; nil if it is none.
func findSway(ctx context.Context, getenv func(string) string, runtime string) *sway {
	candidates := []string{getenv("SWAYSOCK")}
	if candidates[0] == "" {
		// The name has Sway's process in it; old ones may be left over.
		found, _ := filepath.Glob(filepath.Join(runtime, "sway-ipc."+strconv.Itoa(os.Getuid())+".*.sock"))
		candidates = found
	}
	for _, path := range candidates {
		if path == "" {
			continue
		}
		soon, cancel := context.WithTimeout(ctx, 2*time.Second)
		s := &sway{path}
		_, err := s.ask(soon, swayVersion, "")
		cancel()
		if err == nil {
			return s
		}
	}
	return nil
}

// ask asks one question, on a connection of its own.
func (s *sway) ask(ctx context.Context, kind uint32, payload string) ([]byte, error) {
	c, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	err = writeSway(c, kind, payload)
	var got uint32
	var reply []byte
	if err == nil {
		got, reply, err = readSway(c)
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("%w: sway: %w", platform.ErrLost, err)
	case got != kind:
		return nil, errors.New("wayland: sway answered another question")
	}
	return reply, nil
}

// dial connects. Sway lets a handful of callers wait, and the others try again.
func (s *sway) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		c, err := d.DialContext(ctx, "unix", s.path)
		if err == nil {
			return c, nil
		}
		switch _, bounded := ctx.Deadline(); {
		case errors.Is(err, syscall.EAGAIN):
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
			}
		case bounded && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)):
			<-ctx.Done() // a dialer looks at the clock itself, and may do so a moment before ctx ends
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: sway: %w", platform.ErrLost, err)
	}
}

func writeSway(w io.Writer, kind uint32, payload string) error {
	b := append([]byte(swayMagic), make([]byte, 8)...)
	binary.NativeEndian.PutUint32(b[6:], uint32(len(payload)))
	binary.NativeEndian.PutUint32(b[10:], kind)
	_, err := w.Write(append(b, payload...))
	return err
}

// readSway reads one answer or event.
func readSway(r io.Reader) (kind uint32, payload []byte, err error) {
	var head [14]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.NativeEndian.Uint32(head[6:])
	if string(head[:6]) != swayMagic || size > maxSwayReply {
		return 0, nil, errors.New("the answer is malformed")
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	return binary.NativeEndian.Uint32(head[10:]), payload, nil
}

// node is a part of Sway's tree.
type node struct {
	ID        int64    `json:"id"`
	Type      string   `json:"type"`
	Name      string   `json:"name"`
	PID       int      `json:"pid"`
	AppID     string   `json:"app_id"`
	Focused   bool     `json:"focused"`
	Visible   bool     `json:"visible"`
	Full      int      `json:"fullscreen_mode"`
	Border    string   `json:"border"`
	Layout    string   `json:"layout"`
	Rect      swayRect `json:"rect"`
	Inside    swayRect `json:"window_rect"` // within Rect
	Drawn     swayRect `json:"geometry"`    // what the program last drew for
	Title     swayRect `json:"deco_rect"`
	X         *xwindow `json:"window_properties"` // of Xwayland's windows
	Nodes     []node   `json:"nodes"`
	Floating  []node   `json:"floating_nodes"`
	FocusList []int64  `json:"focus"` // children, the last used first
}

type xwindow struct {
	Class string `json:"class"`
}

type swayRect struct {
	X, Y, Width, Height int
}

// view is a window as Sway tells of it.
type view struct {
	node
	floating, hidden bool
	bounds, content  platform.Rect // in Sway's units
}

// views lists the windows, the topmost first.
func (s *sway) views(ctx context.Context) ([]view, error) {
	reply, err := s.ask(ctx, swayTree, "")
	if err != nil {
		return nil, err
	}
	return parseTree(reply)
}

// swayWaits is how long Sway itself waits for a program to take a new size before it
// shows the window as it is, and a little more.
const swayWaits = 300 * time.Millisecond

// shown waits until a window is shown at the size that it was given: until then its old picture is
// where it was. It returns the place, in Sway's units.
func (s *sway) shown(ctx context.Context, id int64) (platform.Rect, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(swayWaits); ; {
		all, err := s.views(ctx)
		if err != nil {
			return platform.Rect{}, err
		}
		i := slices.IndexFunc(all, func(v view) bool { return v.ID == id })
		if i < 0 {
			return platform.Rect{}, platform.ErrGone
		}
		if v := all[i]; v.Drawn.Width == v.Inside.Width && v.Drawn.Height == v.Inside.Height || time.Now().After(end) {
			return v.bounds, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return platform.Rect{}, ctx.Err()
		}
	}
}

func parseTree(reply []byte) ([]view, error) {
	var root node
	if err := json.Unmarshal(reply, &root); err != nil {
		return nil, fmt.Errorf("wayland: sway's tree: %w", err)
	}
	// From the top: what fills the screen, what floats, what is tiled; then what is
	// not shown.
	var full, floating, tiled, hidden []view
	var walk func(n *node, floats, scratch bool)
	walk = func(n *node, floats, scratch bool) {
		scratch = scratch || n.Name == "__i3_scratch" && n.Type == "workspace"
		if n.PID != 0 && len(n.Nodes) == 0 {
			v := newView(n, floats, scratch || !n.Visible)
			switch {
			case v.hidden:
				hidden = append(hidden, v)
			case n.Full != 0:
				full = append(full, v)
			case floats:
				floating = append(floating, v)
			default:
				tiled = append(tiled, v)
			}
			return
		}
		for _, child := range inFocus(n.Nodes, n.FocusList) {
			walk(child, floats, scratch)
		}
		for i := len(n.Floating) - 1; i >= 0; i-- { // the last one is on top
			walk(&n.Floating[i], true, scratch)
		}
	}
	walk(&root, false, false)
	return slices.Concat(full, floating, tiled, hidden), nil
}

// inFocus returns children, the last used first.
func inFocus(nodes []node, focus []int64) []*node {
	var all []*node
	for _, id := range focus {
		for i := range nodes {
			if nodes[i].ID == id {
				all = append(all, &nodes[i])
			}
		}
	}
	for i := range nodes {
		if !slices.Contains(focus, nodes[i].ID) {
			all = append(all, &nodes[i])
		}
	}
	return all
}

func newView(n *node, floating, hidden bool) view {
	v := view{node: *n, floating: floating, hidden: hidden}
	v.Nodes, v.Floating = nil, nil
	v.bounds = platform.Rect(n.Rect)
	v.content = v.bounds
	if in := n.Inside; in.Width > 0 && in.Height > 0 {
		v.content = platform.Rect{X: n.Rect.X + in.X, Y: n.Rect.Y + in.Y, Width: in.Width, Height: in.Height}
	}
	if n.Border == "normal" && n.Full == 0 { // the title is above, and not a part of it
		v.bounds.Y -= n.Title.Height
		v.bounds.Height += n.Title.Height
	}
	v.bounds = v.bounds.Union(v.content)
	return v
}

// app returns the name of the program.
func (n *node) app() string {
	if n.AppID == "" && n.X != nil {
		return n.X.Class
	}
	return n.AppID
}

// command has Sway do something to a window.
func (s *sway) command(ctx context.Context, id int64, what ...string) error {
	reply, err := s.ask(ctx, swayCommand, fmt.Sprintf("[con_id=%d] %s", id, strings.Join(what, ", ")))
	if err != nil {
		return err
	}
	var all []struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(reply, &all); err != nil {
		return fmt.Errorf("wayland: sway's answer: %w", err)
	}
	for _, one := range all {
		switch {
		case one.Success:
		case strings.Contains(one.Error, "No matching node"):
			return platform.ErrGone
		default:
			return fmt.Errorf("sway refused: %.200s: %w", one.Error, platform.ErrCannot)
		}
	}
	return nil
}

// follow calls changed whenever a window or workspace changes, until ctx or Sway
// ends.
func (s *sway) follow(ctx context.Context, changed func()) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err = writeSway(c, swaySubscribe, `["window","workspace"]`)
	if err == nil {
		_, _, err = readSway(c) // from here on nothing is missed
	}
	if err != nil {
		stop()
		_ = c.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: sway: %w", platform.ErrLost, err)
	}
	go func() {
		defer c.Close()
		defer stop()
		for {
			if _, _, err := readSway(c); err != nil {
				return
			}
			changed()
		}
	}()
	return nil
}

// inhibited tells whether a program keeps the seat from counting as at rest, as
// one that shows a film does.
func (s *sway) inhibited(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	reply, err := s.ask(ctx, swayTree, "")
	return err == nil && strings.Contains(strings.ReplaceAll(string(reply), " ", ""), `"inhibit_idle":true`)
}

// stopCommand does nothing under Sway, which tells that it was run.
const stopCommand = "nop handrail stops"

// bind calls pressed whenever somebody presses keys, until ctx ends.
func (s *sway) bind(ctx context.Context, keys string, pressed func()) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err = writeSway(c, swaySubscribe, `["binding"]`)
	if err == nil {
		_, _, err = readSway(c)
	}
	if err == nil {
		_, err = s.ask(ctx, swayCommand, "bindsym --no-warn "+keys+" "+stopCommand)
	}
	if err != nil {
		stop()
		_ = c.Close()
		return fmt.Errorf("%w: sway: %w", platform.ErrLost, err)
	}
	go func() {
		defer c.Close()
		defer stop()
		for {
			_, payload, err := readSway(c)
			if err != nil {
				break
			}
			var event struct {
				Binding struct {
					Command string `json:"command"`
				} `json:"binding"`
			}
			if json.Unmarshal(payload, &event) == nil && event.Binding.Command == stopCommand {
				pressed()
			}
		}
		undo, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _ = s.ask(undo, swayCommand, "unbindsym "+keys)
	}()
	return nil
}
