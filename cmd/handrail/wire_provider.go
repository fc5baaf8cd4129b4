package main

import (
	"context"
	"log/slog"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/platform"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// openProviders makes what hosts providers on this device.
func openProviders(data dataDir, allowed bool, owner ownerFolders, launcher platform.Launcher, log *slog.Logger) (host *provider.Host, changed <-chan struct{}, err error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, nil, err
	}
	news := make(chan struct{}, 1)
	host, err = provider.New(provider.Options{
		Dir: data.node("providers"), Catalog: cat, Start: starter{sandbox.New(launcher)}, Allowed: allowed, Log: log,
		Forbidden: data.folders(), Check: owner.whole,
		Changed: func() {
			select {
			case news <- struct{}{}:
			default:
			}
		},
	})
	return host, news, err
}

// starter starts providers' programs in this system's sandbox.
type starter struct{ box *sandbox.Sandbox }

var _ provider.Starter = starter{}

// Start starts a program behind walls.
func (s starter) Start(ctx context.Context, p provider.Program) (provider.Process, error) {
	if len(p.Net) > 0 {
		return nil, noNetwork()
	}
	child, err := s.box.Start(ctx, sandbox.Program{Argv: p.Argv, Env: p.Env, Read: p.Read, Write: p.Write})
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Class returns the class that programs with such a reach get.
func (s starter) Class(p provider.Program) (capabilities.IsolationClass, string, error) {
	if len(p.Net) > 0 {
		return capabilities.ClassNone, "", noNetwork()
	}
	class, err := s.box.Class()
	return class, "", err
}

// noNetwork: a wall with one door needs a proxy behind it, and a program without the wall is
// none of ours.
func noNetwork() error {
	return capabilities.Errorf(capabilities.CodeIsolationUnavailable, "programs of providers have no network here").
		WithHint("Leave --net out.")
}
