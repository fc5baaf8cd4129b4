package main

import (
	"context"
	"net/url"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/connect"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// ownClients are the MCP clients of the person who runs up: the console connects them as 'handrail
// connect' does.
type ownClients struct{ data datadir.Dir }

// Owner is who that person is to the gateway.
func (ownClients) Owner() capabilities.PrincipalID { return adminName }

// Found are the clients on this machine.
func (o ownClients) Found() ([]api.LocalClient, error) {
	all := []api.LocalClient{}
	found, err := o.site().Found()
	for _, f := range found {
		all = append(all, localClient(f))
	}
	return all, err
}

func localClient(f connect.Local) api.LocalClient {
	return api.LocalClient{
		Name: f.Client.Name, Title: f.Client.Title, File: f.File, Connected: f.Connected, Principal: capabilities.PrincipalID(f.Principal),
	}
}

// Connect connects one of them.
func (o ownClients) Connect(ctx context.Context, name string) (api.LocalConnection, error) {
	kind, ok := connect.Named(name)
	if !ok {
		return api.LocalConnection{}, capabilities.Errorf(capabilities.CodeNotFound, "there is no client %.64q", name)
	}
	if err := o.data.Make(clientsOf(o.data).Dir); err != nil {
		return api.LocalConnection{}, err
	}
	made, tools, err := o.site().Connect(ctx, kind)
	if err != nil {
		return api.LocalConnection{}, err
	}
	return api.LocalConnection{
		LocalClient: localClient(connect.Local{Client: kind, File: made.File, Connected: true, Principal: made.Principal}),
		Backup:      made.Backup, Tools: tools, Reload: kind.Reload,
	}, nil
}

// site is what they are connected to: the gateway of this very process, as its admin.
func (o ownClients) site() connect.Site {
	data := o.data
	if full, err := filepath.Abs(string(data)); err == nil {
		data = datadir.Dir(full) // the client starts us from somewhere else
	}
	running := func() (*url.URL, client.Pin, error) {
		r, err := data.ReadRunning()
		if err != nil {
			return nil, client.Pin{}, err
		}
		return r.Place()
	}
	return connect.Site{
		Data: string(data), Store: clientsOf(data), Version: programVersion(), Told: remote.Told, Running: running,
		Person: func() (connect.Gateway, error) {
			token, err := remote.ReadToken(data.TokenPath())
			if err != nil {
				return connect.Gateway{}, err
			}
			base, pin, err := running()
			if err != nil {
				return connect.Gateway{}, err
			}
			secret := client.NewToken(token)
			return connect.Gateway{Client: client.At(base, secret, pin), Base: base, Token: secret, Pin: pin}, nil
		},
	}
}
