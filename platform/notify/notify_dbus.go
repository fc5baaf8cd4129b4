//go:build unix && !darwin

package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

const (
	busName = "org.freedesktop.Notifications"
	busPath = dbus.ObjectPath("/org/freedesktop/Notifications")
)

// notifier speaks to the session's notification server.
type notifier struct {
	o      Options
	events chan platform.NoticeEvent

	mu     sync.Mutex
	conn   *dbus.Conn // nil: dialled with the next notice
	can    []string   // what the server says it can
	closed bool
	heard  sync.WaitGroup // hear
}

func open(o Options) platform.Notifier {
	return &notifier{o: o, events: make(chan platform.NoticeEvent, 16)}
}

// address is where the session's bus listens; empty: there is none. A bus is never
// started for it, which is what dbus.SessionBus would do.
func (o *Options) address() string {
	if o.SessionBus != "" {
		return o.SessionBus
	}
	if a := o.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && !strings.HasPrefix(a, "autolaunch:") {
		return a
	}
	dir := o.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		dir = "/run/user/" + strconv.Itoa(os.Getuid())
	}
	if _, err := os.Stat(dir + "/bus"); err == nil {
		return "unix:path=" + dir + "/bus"
	}
	return ""
}

// session returns the connection and what the server can.
func (n *notifier) session(ctx context.Context) (*dbus.Conn, []string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, nil, os.ErrClosed
	}
	if n.conn != nil && n.conn.Connected() {
		return n.conn, n.can, nil
	}
	address := n.o.address()
	if address == "" {
		return nil, nil, fmt.Errorf("%w: this process belongs to no session with a D-Bus", platform.ErrNoNotices)
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, nil, err
	}
	var can []string
	err = conn.Object(busName, busPath).CallWithContext(ctx, busName+".GetCapabilities", 0).Store(&can)
	var refused dbus.Error
	if errors.As(err, &refused) &&
		(refused.Name == "org.freedesktop.DBus.Error.ServiceUnknown" || refused.Name == "org.freedesktop.DBus.Error.NameHasNoOwner") {
		err = fmt.Errorf("%w: nothing in it shows them (%s)", platform.ErrNoNotices, refused.Name)
	}
	if err == nil {
		err = conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(busName), dbus.WithMatchObjectPath(busPath))
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	if n.conn != nil {
		_ = n.conn.Close()
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	n.conn, n.can = conn, can
	n.heard.Go(func() { n.hear(signals) })
	return conn, can, nil
}

// dial opens the bus, bounded by ctx: the library waits without end for a bus that
// accepts and says nothing.
func dial(ctx context.Context, address string) (*dbus.Conn, error) {
	type end struct {
		conn *dbus.Conn
		err  error
	}
	conn, err := dbus.Dial(address)
	if err != nil {
		return nil, err
	}
	done := make(chan end, 1)
	go func() {
		err := conn.Auth(nil)
		if err == nil {
			err = conn.Hello()
		}
		done <- end{conn, err}
	}()
	select {
	case e := <-done:
		if e.err != nil {
			_ = conn.Close()
			return nil, e.err
		}
		return conn, nil
	case <-ctx.Done():
		_ = conn.Close()
		<-done
		return nil, ctx.Err()
	}
}

// hear passes on what the person does until the connection ends, which closes
// signals.
func (n *notifier) hear(signals <-chan *dbus.Signal) {
	for s := range signals {
		var e platform.NoticeEvent
		if len(s.Body) < 2 {
			continue
		}
		id, ok := s.Body[0].(uint32)
		if !ok {
			continue
		}
		e.ID = id
		switch s.Name {
		case busName + ".ActionInvoked":
			if e.Key, ok = s.Body[1].(string); !ok || e.Key == "" {
				continue
			}
		case busName + ".NotificationClosed":
		default:
			continue
		}
		select {
		case n.events <- e:
		default: // nobody takes them
		}
	}
}

// Show puts a notice up.
func (n *notifier) Show(ctx context.Context, id uint32, notice platform.Notice) (uint32, error) {
	conn, can, err := n.session(ctx)
	if err != nil {
		return 0, err
	}
	actions := []string{}
	if slices.Contains(can, "actions") {
		for _, a := range notice.Actions {
			actions = append(actions, a.Key, a.Label)
		}
	}
	hints := map[string]dbus.Variant{
		"urgency":  dbus.MakeVariant(byte(1)),
		"category": dbus.MakeVariant("device"),
	}
	expire := int32(-1) // as the server likes
	if notice.Lasting {
		// Critical ones are the only ones that every server keeps up and shows over
		// others.
		hints["urgency"], hints["resident"] = dbus.MakeVariant(byte(2)), dbus.MakeVariant(true)
		expire = 0
	}
	body := notice.Body
	if slices.Contains(can, "body-markup") {
		body = escape.Replace(body)
	}
	var shown uint32
	err = conn.Object(busName, busPath).CallWithContext(ctx, busName+".Notify", 0,
		"Handrail", id, "", notice.Title, body, actions, hints, expire).Store(&shown)
	return shown, err
}

// escape keeps a server from taking a name for markup.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Ready says why the session shows no notices: ErrNoNotices, with the reason. It shows none.
func (n *notifier) Ready(ctx context.Context) error {
	_, _, err := n.session(ctx)
	return err
}

// Withdraw takes a notice away.
func (n *notifier) Withdraw(ctx context.Context, id uint32) error {
	n.mu.Lock()
	conn := n.conn
	n.mu.Unlock()
	if conn == nil || !conn.Connected() {
		return nil // it went with its connection, or never was
	}
	err := conn.Object(busName, busPath).CallWithContext(ctx, busName+".CloseNotification", 0, id).Err
	var refused dbus.Error
	if errors.As(err, &refused) {
		return nil // it is not there
	}
	return err
}

// Events returns what the person does.
func (n *notifier) Events() <-chan platform.NoticeEvent { return n.events }

// Close ends the connection.
func (n *notifier) Close() error {
	n.mu.Lock()
	conn := n.conn
	n.conn, n.closed = nil, true
	n.mu.Unlock()
	var err error
	if conn != nil {
		err = conn.Close()
	}
	n.heard.Wait()
	return err
}
