//go:build linux

package wayland

import (
	"context"

	"github.com/handrail-dev/handrail/platform"
)

// Person tells when a person uses the mouse or the keyboard.
type Person struct{}

// NewPerson connects.
func NewPerson(context.Context, Options) (*Person, error) {
	return nil, &platform.MissingError{What: "This Wayland compositor does not tell a person's input from a program's.", Fix: "Use an X11 session."}
}

// Close ends the connection.
func (p *Person) Close() error { return nil }

// Watch tells of the person.
func (p *Person) Watch() {}

// begin says that this program makes events, until over is called. P may be nil.
func (p *Person) begin() (over func()) { return func() {} }
