package walls

import (
	"context"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// Starter starts providers' programs in this system's sandbox.
type Starter struct{ Box *sandbox.Sandbox }

var _ provider.Starter = Starter{}

// Start starts a program behind walls.
func (s Starter) Start(ctx context.Context, p provider.Program) (provider.Process, error) {
	class := classOf(p)
	var door sandbox.Door
	if class != capabilities.ClassT0 {
		var err error
		if door, err = OpenDoor(s.Box, p.Net); err != nil {
			return nil, err
		}
	}
	refused := p.Refused
	if refused == nil {
		refused = p.Net.Socket
	}
	child, err := s.Box.Start(ctx, sandbox.Program{
		Argv: p.Argv, Env: p.Env, Read: p.Read, Write: p.Write, Own: p.Own, Door: door, Class: class, Call: p.Call, Keys: p.Keys,
		Began:   began(s.Box, class, p.Ran),
		Refused: refused, Denied: p.Denied, Wrote: p.Wrote, Changed: p.Changed, Missed: p.Missed,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Class returns the class that programs with such a reach get.
func (s Starter) Class(p provider.Program) (capabilities.IsolationClass, string, error) {
	class := classOf(p)
	if err := s.Box.Check(class, !p.Net.Empty()); err != nil {
		return capabilities.ClassNone, "", err
	}
	return class, "", nil
}

// began has a program's start reported, with its hash.
func began(box *sandbox.Sandbox, class capabilities.IsolationClass, told func(capabilities.Ran)) func(string, []sandbox.Wall) {
	if told == nil {
		return nil
	}
	return func(path string, walls []sandbox.Wall) { told(Ran(box, class, path, walls)) }
}

// Ran is what a program runs in, for the record of its calls.
func Ran(box *sandbox.Sandbox, class capabilities.IsolationClass, path string, walls []sandbox.Wall) capabilities.Ran {
	r := capabilities.Ran{Program: box.Hash(path), Class: class, Deeper: sandbox.Names(sandbox.Beyond(walls))}
	for _, w := range walls {
		r.Walls = append(r.Walls, string(w))
	}
	return r
}

// Runs returns what such a program runs in, before it is started: the walls beyond its class's, and
// its hash.
func (s Starter) Runs(p provider.Program) (deeper, program string) {
	walls := s.Box.Deeper(context.Background(), sandbox.Program{Read: p.Read, Write: p.Write})
	return sandbox.Names(walls), s.Box.Hash(p.Argv[0])
}

// classOf is the class that a program needs: what it says, else by its reach.
func classOf(p provider.Program) capabilities.IsolationClass {
	switch {
	case p.Class != "":
		return p.Class
	case p.Net.Empty():
		return capabilities.ClassT1
	}
	return capabilities.ClassT2
}

// OpenDoor opens a program's way to the network; nil: it opens no connection. One that leads
// nowhere says what the program tried, and is left out where the system has no doors.
func OpenDoor(box *sandbox.Sandbox, way *egress.Way) (sandbox.Door, error) {
	if _, err := box.Class(true); way == nil || way.Empty() && err != nil {
		return nil, nil
	}
	door, err := way.Open()
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The program's way to the network could not be opened.")
	}
	return door, nil
}
