package site

import (
	"context"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Walls starts providers' programs as the binary does. TestMain calls procguard.Main and
// sandbox.Main first.
type Walls struct{ box *sandbox.Sandbox }

// NewWalls makes one; the error says why nothing can be confined on this system.
func NewWalls() (Walls, error) {
	w := Walls{sandbox.New(procguard.New(procguard.Options{}))}
	_, err := w.box.Class(true)
	return w, err
}

// Start starts a program behind walls.
func (w Walls) Start(ctx context.Context, p provider.Program) (provider.Process, error) {
	class, _, err := w.Class(p)
	if err != nil {
		return nil, err
	}
	program := sandbox.Program{Argv: p.Argv, Env: p.Env, Read: p.Read, Write: p.Write, Own: p.Own, Class: class, Call: p.Call, Keys: p.Keys, Refused: p.Refused, Wrote: p.Wrote}
	if p.Refused == nil {
		program.Refused = p.Net.Socket
	}
	if p.Net != nil && class != capabilities.ClassT0 {
		door, err := p.Net.Open()
		if err != nil {
			return nil, err
		}
		program.Door = door
	}
	child, err := w.box.Start(ctx, program)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Class returns the class that they get.
func (w Walls) Class(p provider.Program) (capabilities.IsolationClass, string, error) {
	class := p.Class
	switch {
	case class != "":
	case p.Net.Empty():
		class = capabilities.ClassT1
	default:
		class = capabilities.ClassT2
	}
	return class, "", w.box.Check(class, !p.Net.Empty())
}
