package main

import (
	"context"
	"log/slog"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/capabilities/egress"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/platform/sandbox"
	"github.com/handrail-dev/handrail/platform/wasm"
)

// openProviders makes what hosts providers on this device.
func openProviders(data datadir.Dir, allowed bool, owner ownerFolders, box *sandbox.Sandbox, log *slog.Logger) (host *provider.Host, changed <-chan struct{}, err error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, nil, err
	}
	news := make(chan struct{}, 1)
	host, err = provider.New(provider.Options{
		Dir: data.Node("providers"), Catalog: cat, Start: starter{box}, Modules: modules{wasm.New()}, Allowed: allowed, Log: log,
		Forbidden: foldersOf(data), Check: owner.whole,
		Changed: func() {
			select {
			case news <- struct{}{}:
			default:
			}
		},
	})
	return host, news, err
}

// modules runs WebAssembly modules in this process.
type modules struct{ *wasm.Engine }

var _ provider.Modules = modules{}

// Start runs a module.
func (m modules) Start(ctx context.Context, code []byte, args, keys []string) (provider.Process, error) {
	p, err := m.Engine.Start(ctx, wasm.Program{Code: code, Args: args, Keys: keys})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// starter starts providers' programs in this system's sandbox.
type starter struct{ box *sandbox.Sandbox }

var _ provider.Starter = starter{}

// Start starts a program behind walls.
func (s starter) Start(ctx context.Context, p provider.Program) (provider.Process, error) {
	class := classOf(p)
	var door sandbox.Door
	if class != capabilities.ClassT0 {
		var err error
		if door, err = openDoor(s.box, p.Net); err != nil {
			return nil, err
		}
	}
	refused := p.Refused
	if refused == nil {
		refused = p.Net.Socket
	}
	child, err := s.box.Start(ctx, sandbox.Program{
		Argv: p.Argv, Env: p.Env, Read: p.Read, Write: p.Write, Own: p.Own, Door: door, Class: class, Call: p.Call, Keys: p.Keys, Refused: refused, Wrote: p.Wrote,
	})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Class returns the class that programs with such a reach get.
func (s starter) Class(p provider.Program) (capabilities.IsolationClass, string, error) {
	class := classOf(p)
	if err := s.box.Check(class, !p.Net.Empty()); err != nil {
		return capabilities.ClassNone, "", err
	}
	return class, "", nil
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

// openDoor opens a program's way to the network; nil: it opens no connection. One that leads
// nowhere says what the program tried, and is left out where the system has no doors.
func openDoor(box *sandbox.Sandbox, way *egress.Way) (sandbox.Door, error) {
	if _, err := box.Class(true); way == nil || way.Empty() && err != nil {
		return nil, nil
	}
	door, err := way.Open()
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The program's way to the network could not be opened.")
	}
	return door, nil
}
