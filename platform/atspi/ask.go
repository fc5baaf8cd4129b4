package atspi

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/handrail-dev/handrail/platform"
)

// inFlight is how many questions one reading has under way: enough to hide the
// way there and back, few enough that an application draws its windows between.
const inFlight = 64

// The interfaces of AT-SPI2.
const (
	ifAccessible  = "org.a11y.atspi.Accessible"
	ifAction      = "org.a11y.atspi.Action"
	ifApplication = "org.a11y.atspi.Application"
	ifCache       = "org.a11y.atspi.Cache"
	ifComponent   = "org.a11y.atspi.Component"
	ifEditable    = "org.a11y.atspi.EditableText"
	ifRegistry    = "org.a11y.atspi.Registry"
	ifSelection   = "org.a11y.atspi.Selection"
	ifTable       = "org.a11y.atspi.Table"
	ifText        = "org.a11y.atspi.Text"
	ifValue       = "org.a11y.atspi.Value"
	ifProperties  = "org.freedesktop.DBus.Properties"
	ifBus         = "org.freedesktop.DBus"

	pathRoot     = dbus.ObjectPath("/org/a11y/atspi/accessible/root")
	pathNull     = dbus.ObjectPath("/org/a11y/atspi/null")
	pathCache    = dbus.ObjectPath("/org/a11y/atspi/cache")
	pathRegistry = dbus.ObjectPath("/org/a11y/atspi/registry")
	pathBus      = dbus.ObjectPath("/org/freedesktop/DBus")
)

// place is where an element is: its application's name on the bus, and its path.
type place struct {
	bus  string
	path dbus.ObjectPath
}

// question is one method call and, once asked, its answer.
type question struct {
	at     place
	method string // with its interface
	args   []any
	// then is called with the answer, also with an error, and gives questions that
	// follow from it; nil: none. It is called again if all is asked again.
	then func(*question) []*question

	body []any
	err  error
}

func call(at place, method string, args ...any) *question {
	return &question{at: at, method: method, args: args}
}

// property asks for one property.
func property(at place, iface, name string) *question {
	return call(at, ifProperties+".Get", iface, name)
}

// first returns the first value of the answer; a property's without its wrapping.
func (q *question) first() any {
	if q.err != nil || len(q.body) == 0 {
		return nil
	}
	v := q.body[0]
	if w, ok := v.(dbus.Variant); ok {
		v = w.Value()
	}
	return v
}

func (q *question) text() string {
	s, _ := q.first().(string)
	return s
}

func (q *question) yes() bool {
	b, _ := q.first().(bool)
	return b
}

func (q *question) number() int {
	switch n := q.first().(type) {
	case int32:
		return int(n)
	case uint32:
		return int(n)
	case int64:
		return int(n)
	}
	return 0
}

// ask sends the questions, a bounded number at once and in their order, those that follow from an
// answer next, and returns when each has its answer or error. Its error is why it could not go on:
// ctx's end, or the end of the connection; an answer that is an error of the application's is none.
// heard, if there is one, is called for each answer.
//
// The next elements are asked for while others are under way because of the pause that there would
// be: GTK paints its windows when nobody asks, and answers the next question when that is done, in
// as much time as a hundred of them take.
func ask(ctx context.Context, c *dbus.Conn, heard func(*question), questions ...*question) error {
	if len(questions) == 0 {
		return ctx.Err()
	}
	answers := make(chan *dbus.Call, inFlight)
	open := make(map[*dbus.Call]*question, inFlight)
	var stopped error
	next := 0
	for next < len(questions) || len(open) > 0 {
		for stopped == nil && next < len(questions) && len(open) < inFlight {
			q := questions[next]
			next++
			open[c.Object(q.at.bus, q.at.path).GoWithContext(ctx, q.method, dbus.FlagNoAutoStart, answers, q.args...)] = q
		}
		if len(open) == 0 {
			break
		}
		answer := <-answers
		q := open[answer]
		delete(open, answer)
		q.body, q.err = answer.Body, answer.Err
		switch {
		case answer.Err == nil:
		case errors.Is(answer.Err, dbus.ErrClosed) || !c.Connected():
			stopped = platform.ErrLost
		case ctx.Err() != nil && !isReply(answer.Err):
			stopped = ctx.Err()
		}
		if heard != nil && (answer.Err == nil || isReply(answer.Err)) {
			heard(q)
		}
		if q.then != nil && stopped == nil {
			if more := q.then(q); len(more) > 0 {
				questions = slices.Concat(questions[:next], more, questions[next:])
			}
		}
	}
	for _, q := range questions[next:] {
		q.err = stopped
	}
	return stopped
}

// isReply reports that the error was sent by somebody on the bus.
func isReply(err error) bool {
	var e dbus.Error
	return errors.As(err, &e)
}

// errorName returns the D-Bus name of an error, "" if it has none.
func errorName(err error) string {
	var e dbus.Error
	if errors.As(err, &e) {
		return e.Name
	}
	return ""
}

// noPeer reports that the application itself is gone.
func noPeer(err error) bool {
	switch errorName(err) {
	case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.NoReply", "org.freedesktop.DBus.Error.Disconnected":
		return true
	}
	return false
}

// lacks reports that the application does not know the object, the interface or
// the method. Toolkits do not agree on which of them they say.
func lacks(err error) bool {
	name := errorName(err)
	return strings.HasPrefix(name, "org.freedesktop.DBus.Error.Unknown") || name == "org.freedesktop.DBus.Error.NotSupported" ||
		name == "org.freedesktop.DBus.Error.InvalidArgs" || name == "org.freedesktop.DBus.Error.Failed"
}
