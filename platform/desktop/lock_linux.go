package desktop

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// lockers are who may know whether the session is locked. None is started for it.
var lockers = []struct {
	system     bool
	name, path string
	method     string
	property   string // of the interface named by method, if it is a property
	says       string
}{
	{
		false, "org.freedesktop.ScreenSaver", "/org/freedesktop/ScreenSaver", "org.freedesktop.ScreenSaver.GetActive",
		"", "The session's screen is locked.",
	},
	{false, "org.gnome.ScreenSaver", "/org/gnome/ScreenSaver", "org.gnome.ScreenSaver.GetActive", "", "The session's screen is locked."},
	{
		true, "org.freedesktop.login1", "/org/freedesktop/login1/session/auto", "org.freedesktop.login1.Session",
		"LockedHint", "The session is locked (login1).",
	},
}

// buses are the connections that the questions go over; a lost one is made anew.
type buses struct {
	options Options

	mu              sync.Mutex // above what follows
	session, system *dbus.Conn
}

func newLockWatch(o Options) *lockWatch {
	b := &buses{options: o}
	return &lockWatch{ask: b.locked, end: b.close}
}

// locked asks everybody at once.
func (b *buses) locked(ctx context.Context) string {
	answers := make(chan string, len(lockers)+1)
	go func() { answers <- lockedBy("/proc", b.options.Getenv) }()
	for _, l := range lockers {
		go func() {
			var active bool
			c := b.conn(ctx, l.system)
			if c == nil {
				answers <- ""
				return
			}
			o := c.Object(l.name, dbus.ObjectPath(l.path))
			var err error
			if l.property != "" {
				var v dbus.Variant
				err = o.CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart, l.method, l.property).Store(&v)
				active, _ = v.Value().(bool)
			} else {
				err = o.CallWithContext(ctx, l.method, dbus.FlagNoAutoStart).Store(&active)
			}
			if err != nil || !active {
				answers <- ""
				return
			}
			answers <- l.says
		}()
	}
	for range len(lockers) + 1 {
		select {
		case says := <-answers:
			if says != "" {
				return says
			}
		case <-ctx.Done():
			return ""
		}
	}
	return ""
}

func (b *buses) conn(ctx context.Context, system bool) *dbus.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, address := &b.session, b.options.Getenv("DBUS_SESSION_BUS_ADDRESS")
	if system {
		have, address = &b.system, b.options.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
		if address == "" {
			address = "unix:path=/run/dbus/system_bus_socket"
		}
	} else if runtime := b.options.Getenv("XDG_RUNTIME_DIR"); address == "" && runtime != "" {
		address = "unix:path=" + runtime + "/bus"
	}
	if *have != nil && (*have).Connected() {
		return *have
	}
	if address == "" {
		return nil
	}
	// The connection outlives the question, but its making does not.
	c, err := dbus.Dial(address)
	if err != nil {
		return nil
	}
	made := make(chan bool, 1)
	go func() { made <- c.Auth(nil) == nil && c.Hello() == nil }()
	select {
	case ok := <-made:
		if ok {
			*have = c
			return c
		}
	case <-ctx.Done():
	}
	_ = c.Close()
	return nil
}

func (b *buses) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range []*dbus.Conn{b.session, b.system} {
		if c != nil {
			_ = c.Close()
		}
	}
	b.session, b.system = nil, nil
}

// lockPrograms lock a session and tell nobody on a bus, as those of the wlroots
// family and the plain ones of X do. While one runs, what is typed goes to it.
var lockPrograms = []string{"swaylock", "waylock", "hyprlock", "gtklock", "i3lock", "slock", "xsecurelock", "xtrlock", "xlock"}

// lockedBy looks for a lock program of this user's on this desktop.
func lockedBy(proc string, getenv func(string) string) string {
	all, err := os.ReadDir(proc)
	if err != nil {
		return ""
	}
	for _, one := range all {
		if c := one.Name()[0]; c < '0' || c > '9' {
			continue
		}
		dir := filepath.Join(proc, one.Name())
		name := named(filepath.Join(dir, "comm"))
		if !slices.Contains(lockPrograms, name) || !mine(filepath.Join(dir, "status")) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil && !errors.Is(err, fs.ErrPermission) { // it has just ended
			continue
		}
		for _, display := range []string{"WAYLAND_DISPLAY", "DISPLAY"} {
			// One that runs with other rights (slock) hides its environment.
			if at := getenv(display); err != nil || at != "" && slices.Contains(strings.Split(string(env), "\x00"), display+"="+at) {
				return "The session is locked by " + name + "."
			}
		}
	}
	return ""
}

// named reads a process's name, at most 16 bytes, with nothing around it: whoever watches
// a screen has this done for hundreds of processes each second.
func named(comm string) string {
	fd, err := unix.Open(comm, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var b [32]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b[:n]))
}

// mine tells whether a process was started by this user.
func mine(status string) bool {
	text, err := os.ReadFile(status)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			return f[1] == strconv.Itoa(os.Getuid())
		}
	}
	return false
}
