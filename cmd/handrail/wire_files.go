package main

import (
	"context"
	"path/filepath"

	"github.com/handrail-dev/handrail/agent/walls"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/folder"
	"github.com/handrail-dev/handrail/capabilities/fs"
	"github.com/handrail-dev/handrail/capabilities/web"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/platform/sandbox"
)

// openFiles makes the handler of files over the workspace, which may be none, and of commands that
// may reach those hosts.
func openFiles(workspace string, hosts []string, owner ownerFolders, box *sandbox.Sandbox) (*fs.Handler, error) {
	class := capabilities.ClassT1
	if len(hosts) > 0 {
		class = capabilities.ClassT2
	}
	return fs.New(fs.Options{Workspace: workspace, Hosts: hosts, Check: owner.read, Whole: owner.whole, Start: shell{box, class}})
}

// openWeb makes the handler that fetches pages and searches for them. The owner's word about the
// browser's ways holds for all of the web.
func openWeb(c browserConfig, search string) (*web.Handler, error) {
	return web.New(web.Options{Origins: c.AllowOrigins, Allow: c.AllowDomains, Block: c.BlockDomains, Search: search})
}

// apart refuses a workspace from which the data directory can be reached, or the other way round:
// whoever writes there makes themselves the owner's word, or the gateway's.
func apart(d datadir.Dir, workspace string) error {
	if workspace == "" {
		return nil
	}
	full, err := filepath.Abs(workspace)
	if err != nil {
		return err
	}
	for _, kept := range d.Folders() {
		if folder.Meet(full, kept) {
			return terminal.UsageHint("Name another folder with --workspace, or another place for the data with --data.",
				"the workspace %s holds the data directory %s or lies in it", workspace, d)
		}
	}
	return nil
}

// filesOffered lists the families of files and of the web, for a device that is about to join.
func filesOffered() []capabilities.CapabilityID {
	return append((&fs.Handler{}).Capabilities(), (&web.Handler{}).Capabilities()...)
}

// shell starts commands in this system's sandbox.
type shell struct {
	box   *sandbox.Sandbox
	class capabilities.IsolationClass // of every command, also of one without a network
}

// Start starts a command that may write one folder, with what its call's keys grant.
func (s shell) Start(ctx context.Context, c fs.Command) (fs.Process, error) {
	// git does not start where it may not read the system's settings.
	p := sandbox.Program{
		Argv: c.Argv, Env: []string{"GIT_CONFIG_NOSYSTEM=1"}, Write: []string{c.Dir}, Class: s.class, Call: true, Keys: c.Keys, Wrote: c.Wrote,
		Refused: c.Refused, Denied: c.Denied,
	}
	if c.Ran != nil {
		p.Began = func(path string, stand []sandbox.Wall) { c.Ran(walls.Ran(s.box, s.class, path, stand)) }
	}
	if c.Changed != nil {
		p.Changed = func(string) { c.Changed() }
	}
	if c.Net != nil {
		door, err := walls.OpenDoor(s.box, c.Net)
		if err != nil {
			return nil, err
		}
		p.Door = door
	}
	child, err := s.box.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	return child, nil
}

// Runs returns what a command would run in.
func (s shell) Runs(c fs.Command) (deeper, program string) {
	stand := s.box.Deeper(context.Background(), sandbox.Program{Write: []string{c.Dir}})
	return sandbox.Names(stand), s.box.Hash(c.Argv[0])
}

// Class is what commands get.
func (s shell) Class(net bool) (capabilities.IsolationClass, error) { return s.box.Class(net) }
