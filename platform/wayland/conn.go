//go:build linux

package wayland

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/handrail-dev/handrail/platform"
)

// Options say which compositor to connect to.
type Options struct {
	// Display is as in $WAYLAND_DISPLAY: a socket's name within Runtime, or its
	// path. Default: wayland-0.
	Display string
	// Runtime is as in $XDG_RUNTIME_DIR.
	Runtime string
}

func (o Options) socket() string {
	name := o.Display
	if name == "" {
		name = "wayland-0"
	}
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(o.Runtime, name)
}

// sendWithin is how long the compositor may leave a full socket unread before the
// connection counts as lost. Calls that wait for answers end with their context;
// this is for the requests before.
const sendWithin = 5 * time.Second

// Conn is a connection to a compositor. Its methods are safe for concurrent use.
type Conn struct {
	Name string // the socket, such as "wayland-1"

	sock  *net.UnixConn
	lost  chan struct{}
	close sync.Once

	mu      sync.Mutex // above what follows; never held while a handler runs
	why     error      // why the connection ended
	objects map[uint32]*object
	free    []uint32 // numbers that the compositor is done with
	next    uint32
	globals map[uint32]global
	onList  []func() // called when globals came or went
}

// object is one that requests are sent to, and events come from.
type object struct {
	id      uint32
	iface   *iface
	version uint32
	handle  func(m *message) // runs where the connection is read: quick, and without waiting
	dead    bool             // destroyed here; the compositor may not know it yet
}

// global is what the compositor offers.
type global struct {
	name    uint32
	iface   string
	version uint32
}

// firstServerID begins the compositor's own numbers.
const firstServerID = 0xff000000

// Dial connects. An error is a *platform.MissingError that says what to do, or
// that of ctx.
func Dial(ctx context.Context, o Options) (*Conn, error) {
	path := o.socket()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &platform.MissingError{What: fmt.Sprintf("The Wayland compositor of %s does not answer: %v.", path, err),
			Fix: "Start the node within the desktop session, as its user, or set WAYLAND_DISPLAY and XDG_RUNTIME_DIR to the session's."}
	}
	c := &Conn{Name: filepath.Base(path), sock: raw.(*net.UnixConn), lost: make(chan struct{}), objects: map[uint32]*object{},
		next: 2, globals: map[uint32]global{}}
	c.objects[1] = &object{id: 1, iface: wlDisplay, version: 1, handle: c.display}
	go c.read()
	if _, err = c.create(1, displayGetRegistry, wlRegistry, 1, c.registry); err == nil {
		err = c.Sync(ctx) // the globals have come
	}
	if err == nil {
		err = c.Sync(ctx) // so has what they said of themselves
	}
	if err != nil {
		_ = c.Close()
		if errors.Is(err, platform.ErrLost) {
			return nil, &platform.MissingError{What: fmt.Sprintf("The program that listens at %s is no Wayland compositor: %v.", path, err),
				Fix: "Set WAYLAND_DISPLAY and XDG_RUNTIME_DIR to the session's."}
		}
		return nil, err
	}
	return c, nil
}

// Lost is closed when the connection has ended.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Close ends the connection. Idempotent.
func (c *Conn) Close() error {
	c.close.Do(func() { _ = c.sock.Close() })
	<-c.lost
	return nil
}

// fault is the error of a connection that ended.
func (c *Conn) fault() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		return platform.ErrLost
	}
	return fmt.Errorf("%w: %w", platform.ErrLost, c.why)
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = err
	}
	c.mu.Unlock()
	c.close.Do(func() { _ = c.sock.Close() })
}

// display handles the events of object 1.
func (c *Conn) display(m *message) {
	switch m.opcode {
	case displayError:
		id, code, text := m.uint(), m.uint(), m.string()
		c.mu.Lock()
		name := fmt.Sprint(id)
		if o := c.objects[id]; o != nil {
			name = o.iface.name
		}
		c.mu.Unlock()
		c.fail(fmt.Errorf("the compositor refused a request of %s: %.200q (code %d)", name, text, code))
	case displayDeleteID:
		id := m.uint()
		c.mu.Lock()
		if o := c.objects[id]; o != nil && id < firstServerID {
			delete(c.objects, id)
			c.free = append(c.free, id)
		}
		c.mu.Unlock()
	}
}

func (c *Conn) registry(m *message) {
	c.mu.Lock()
	switch m.opcode {
	case registryGlobal:
		g := global{m.uint(), m.string(), m.uint()}
		if !m.bad && len(c.globals) < maxGlobals {
			c.globals[g.name] = g
		}
	case registryRemove:
		delete(c.globals, m.uint())
	}
	on := c.onList
	c.mu.Unlock()
	for _, f := range on {
		f()
	}
}

const maxGlobals = 4096

// Offers returns the version in which the compositor offers an interface; 0: it does
// not.
func (c *Conn) Offers(name string) uint32 {
	for _, g := range c.list(name) {
		return g.version
	}
	return 0
}

// list returns the globals of an interface, the oldest first.
func (c *Conn) list(name string) []global {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []global
	for g := range maps.Values(c.globals) {
		if g.iface == name {
			all = append(all, g)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}

// onGlobals has f called where the connection is read, whenever the list changed.
func (c *Conn) onGlobals(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onList = append(c.onList, f)
}

// bind takes a global in its version, at most the newest that is known here.
func (c *Conn) bind(g global, i *iface, handle func(*message)) (*object, error) {
	version := min(g.version, i.version)
	return c.createWith(i, version, handle, func(id uint32) (uint32, uint16, []any) {
		return registryID, registryBind, []any{g.name, g.iface, version, id}
	})
}

// registryID is the number of the first object that is made.
const registryID = 2

// bindOne takes the first global of an interface; nil if it is not offered.
func (c *Conn) bindOne(i *iface, handle func(*message)) (*object, error) {
	all := c.list(i.name)
	if len(all) == 0 {
		return nil, nil
	}
	return c.bind(all[0], i, handle)
}

// create sends a request whose first argument is the new object.
func (c *Conn) create(parent uint32, opcode uint16, i *iface, version uint32, handle func(*message), args ...any) (*object, error) {
	return c.createWith(i, version, handle, func(id uint32) (uint32, uint16, []any) { return parent, opcode, append([]any{id}, args...) })
}

// createWith makes an object with the request that request returns. Numbers have to be used in
// their order, so they are taken and sent in one step.
func (c *Conn) createWith(i *iface, version uint32, handle func(*message),
	request func(id uint32) (parent uint32, opcode uint16, args []any)) (*object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := &object{iface: i, version: version, handle: handle}
	if n := len(c.free); n > 0 {
		o.id, c.free = c.free[n-1], c.free[:n-1]
	} else {
		o.id = c.next
		c.next++
	}
	c.objects[o.id] = o
	parent, opcode, args := request(o.id)
	return o, c.sendLocked(parent, opcode, args...)
}

// adopt makes an object of one that an event brought.
func (c *Conn) adopt(id uint32, i *iface, version uint32, handle func(*message)) *object {
	o := &object{id: id, iface: i, version: version, handle: handle}
	if id < firstServerID { // no number of a compositor
		c.fail(errMalformed)
		return o
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[id] = o
	return o
}

// send sends one request.
func (c *Conn) send(to *object, opcode uint16, args ...any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sendLocked(to.id, opcode, args...)
}

// destroy sends an object's last request. Its events are heard until the
// compositor has read that.
func (c *Conn) destroy(o *object, opcode uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.dead {
		return
	}
	o.dead = true
	_ = c.sendLocked(o.id, opcode)
	if o.id >= firstServerID { // nobody says when such a number is free
		delete(c.objects, o.id)
	}
}

// request is one of several that are sent together.
type request struct {
	to     *object
	opcode uint16
	args   []any
}

// sendAll sends requests at once, so that the compositor reads them as one.
func (c *Conn) sendAll(all ...request) error {
	var b []byte
	var fds []int
	var err error
	for _, r := range all {
		if b, fds, err = encode(b, fds, r.to.id, r.opcode, r.args...); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writeLocked(b, fds)
}

func (c *Conn) sendLocked(to uint32, opcode uint16, args ...any) error {
	b, fds, err := encode(nil, nil, to, opcode, args...)
	if err != nil {
		return err
	}
	return c.writeLocked(b, fds)
}

func (c *Conn) writeLocked(b []byte, fds []int) error {
	if c.why != nil {
		return fmt.Errorf("%w: %w", platform.ErrLost, c.why)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = c.sock.SetWriteDeadline(time.Now().Add(sendWithin))
	n, _, err := c.sock.WriteMsgUnix(b, rights, nil)
	if err == nil && n < len(b) {
		_, err = c.sock.Write(b[n:])
	}
	if err != nil {
		c.why = err
		_ = c.sock.Close() // the reader ends, and says so
		return fmt.Errorf("%w: %w", platform.ErrLost, err)
	}
	return nil
}

// Sync returns when the compositor has done everything that was asked before, and
// what it sent until then was handled.
func (c *Conn) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.syncThen(ctx, func() {})
}

// syncThen is Sync, with f called where the connection is read.
func (c *Conn) syncThen(ctx context.Context, f func()) error {
	done := make(chan struct{})
	if _, err := c.create(1, displaySync, wlCallback, 1, func(*message) { f(); close(done) }); err != nil {
		return err
	}
	return c.wait(ctx, done)
}

// wait waits for done, the end of ctx or of the connection.
func (c *Conn) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-c.lost:
		select { // it may have been the last thing that came
		case <-done:
			return nil
		default:
			return c.fault()
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxFDs bounds the descriptors that come with one reading.
const maxFDs = 28

// read hands out what comes, and ends with the connection.
func (c *Conn) read() {
	var (
		buf     = make([]byte, 0, 2*maxMessage)
		oob     = make([]byte, unix.CmsgSpace(maxFDs*4))
		fds     []int
		failure error
	)
	defer func() {
		for _, f := range fds {
			_ = unix.Close(f)
		}
		c.fail(failure)
		close(c.lost)
	}()
	take := func() int {
		if len(fds) == 0 {
			return -1
		}
		f := fds[0]
		fds = fds[1:]
		return f
	}
	for {
		n, oobn, flags, _, err := c.sock.ReadMsgUnix(buf[len(buf):cap(buf)], oob)
		if oobn > 0 {
			fds = append(fds, descriptors(oob[:oobn])...)
		}
		switch {
		case err != nil:
			failure = err
			return
		case n == 0:
			failure = errors.New("the compositor ended the connection")
			return
		case flags&syscall.MSG_CTRUNC != 0 || len(fds) > 4*maxFDs:
			failure = errMalformed
			return
		}
		buf = buf[:len(buf)+n]
		rest := buf
		for {
			var m *message
			if m, rest, failure = split(rest); failure != nil {
				return
			}
			if m == nil {
				break
			}
			m.takeFD = take
			if failure = c.dispatch(m); failure != nil {
				return
			}
		}
		buf = buf[:copy(buf[:cap(buf)], rest)]
	}
}

func (c *Conn) dispatch(m *message) error {
	c.mu.Lock()
	o := c.objects[m.object]
	dead := o != nil && o.dead
	c.mu.Unlock()
	if o == nil { // one whose number was given up
		return nil
	}
	if o.handle == nil || dead && o.iface.fdEvent == int(m.opcode)+1 {
		if o.iface.fdEvent == int(m.opcode)+1 {
			_ = unix.Close(m.fd())
		}
		return nil
	}
	o.handle(m)
	if m.bad {
		return errMalformed
	}
	return nil
}

// descriptors reads what came beside the bytes.
func descriptors(oob []byte) []int {
	all, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for _, one := range all {
		some, err := syscall.ParseUnixRights(&one)
		if err != nil {
			continue
		}
		for _, f := range some {
			unix.CloseOnExec(f)
		}
		fds = append(fds, some...)
	}
	return fds
}

// missing says that the compositor lacks protocols, for what, and what to do.
func missing(what string, protocols ...string) *platform.MissingError {
	return &platform.MissingError{
		What: fmt.Sprintf("This Wayland compositor does not offer %s, which %s.", strings.Join(protocols, " nor "), what),
		Fix: "Use a compositor of the wlroots family (Sway, Wayfire, labwc, Hyprland), or log in to an X11 session: choose one \"on Xorg\" " +
			"where you log in.",
	}
}

// memory is memory shared with the compositor.
type memory struct {
	fd  int
	mem []byte
}

// newMemory makes memory that nobody else can reach.
func newMemory(name string, size int) (*memory, error) {
	f, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	if err = unix.Ftruncate(f, int64(size)); err == nil {
		// A compositor may refuse memory that could shrink under its hands.
		_, _ = unix.FcntlInt(uintptr(f), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
		var mem []byte
		if mem, err = unix.Mmap(f, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			return &memory{f, mem}, nil
		}
	}
	_ = unix.Close(f)
	return nil, err
}

func (m *memory) close() {
	_ = unix.Munmap(m.mem)
	_ = unix.Close(m.fd)
}

// AnyLost returns a channel that is closed when the first of the connections has
// ended.
func AnyLost(conns ...*Conn) <-chan struct{} {
	var all []<-chan struct{}
	for _, c := range conns {
		all = append(all, c.Lost())
	}
	return EitherLost(all...)
}

// EitherLost does the same for channels that are closed when something has ended.
func EitherLost(all ...<-chan struct{}) <-chan struct{} {
	lost := make(chan struct{})
	var once sync.Once
	for _, one := range all {
		go func() {
			<-one
			once.Do(func() { close(lost) })
		}()
	}
	return lost
}
