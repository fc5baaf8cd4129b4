package main

import (
	"context"
	"log/slog"

	"github.com/handrail-dev/handrail/agent/provider"
	"github.com/handrail-dev/handrail/agent/walls"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/satellites"
	"github.com/handrail-dev/handrail/platform/procguard"
	"github.com/handrail-dev/handrail/platform/sandbox"
	"github.com/handrail-dev/handrail/platform/wasm"
)

// openProviders makes what hosts providers on this device.
func openProviders(data datadir.Dir, allowed bool, owner ownerFolders, box *sandbox.Sandbox,
	log *slog.Logger) (host *provider.Host, changed <-chan struct{}, err error) {
	cat, err := catalog.Embedded()
	if err != nil {
		return nil, nil, err
	}
	news := make(chan struct{}, 1)
	host, err = provider.New(provider.Options{
		Dir: data.Node("providers"), Catalog: cat, Start: walls.Starter{Box: box}, Modules: modules{wasm.New()}, Allowed: allowed, Log: log,
		Forbidden: data.Folders(), Check: owner.whole,
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

// satelliteHost is what the commands of a satellite are given.
func satelliteHost() satellites.Host {
	return satellites.Host{
		Version: programVersion(), Log: newEventLog,
		Bus: busTLS,
		Start: func(log *slog.Logger) provider.Starter {
			return walls.Starter{Box: sandbox.New(procguard.New(procguard.Options{Log: log}))}
		},
	}
}
