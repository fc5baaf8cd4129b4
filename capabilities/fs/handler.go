package fs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Options of New.
type Options struct {
	// Workspace is the folder whose files are worked with; empty: none, and nothing is ready.
	Workspace string
	// Check is what the owner's file says about one file, by its real path; nil: nothing.
	Check func(path string) *capabilities.Error
	// Whole is what the owner's file says about a whole folder: no part of it may be refused or
	// asked about where a command works, for a command cannot be held to that. nil: nothing.
	Whole func(folder string) *capabilities.Error
	// Hosts are those that commands may reach, as egress.NewWay reads them; default: none.
	Hosts []string
	// Start runs commands; nil: there are no walls here, and bash is not ready.
	Start Starter
}

// Starter starts a command behind walls. It is safe for concurrent use.
type Starter interface {
	Start(ctx context.Context, c Command) (Process, error)
	// Class is what it gets, with a way to the network or without; the error says why it gets none,
	// and the fix.
	Class(net bool) (capabilities.IsolationClass, error)
	// Runs returns what such a command would run in: the names of the walls beyond its class's, and
	// the hash of its program's file, "" if it is not known.
	Runs(c Command) (deeper, program string)
}

// Command is what is to be started.
type Command struct {
	Argv []string
	Dir  string      // all that it may write
	Keys []string    // the effective keys of its call, which decide what it gets
	Net  *egress.Way // its way to the network; nil: it opens no connection
	// Wrote is told of each path outside Dir that it would have changed and was kept from.
	Wrote func(path string)
	// Denied is told of what else it was not granted, tried and did not get, as a capability key with
	// a few words.
	Denied func(key, what string)
	// Ran is told what it runs in, once its walls stand.
	Ran func(capabilities.Ran)
	// Changed is told that it changed something in Dir.
	Changed func()
	// Refused is told of each socket that it wanted without a way to the network, in words.
	Refused func(socket string)
}

// Process is a running command.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Wait() (exitCode int, err error)
	Kill()
}

// Handler carries out the file family.
type Handler struct {
	opts Options
	dir  string // the workspace's real path
	root *os.Root

	mu sync.Mutex // one change of files at a time: a patch is not torn by another call
}

// New opens the workspace. A folder that cannot be opened is an error.
func New(o Options) (*Handler, error) {
	h := &Handler{opts: o}
	if o.Check == nil {
		h.opts.Check = func(string) *capabilities.Error { return nil }
	}
	if o.Whole == nil {
		h.opts.Whole = func(string) *capabilities.Error { return nil }
	}
	if err := checkHosts(o.Hosts); err != nil {
		return nil, err
	}
	if o.Workspace == "" {
		if len(o.Hosts) > 0 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "hosts are for commands in a workspace, and none was named")
		}
		return h, nil
	}
	dir, err := filepath.Abs(o.Workspace)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		h.dir = dir
		h.root, err = os.OpenRoot(dir)
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The workspace cannot be opened: "+err.Error())
	}
	return h, nil
}

type run = func(*Handler, context.Context, capabilities.Invocation) (capabilities.Output, error)

// family is what the handler implements.
var family = capabilities.Tools[run]{
	{Capability: "tyrum.fs.read", Run: (*Handler).read},
	{Capability: "tyrum.fs.list", Run: (*Handler).list},
	{Capability: "tyrum.fs.glob", Run: (*Handler).glob},
	{Capability: "tyrum.fs.grep", Run: (*Handler).grep},
	{Capability: "tyrum.fs.write", Run: (*Handler).write},
	{Capability: "tyrum.fs.edit", Run: (*Handler).edit},
	{Capability: "tyrum.fs.apply-patch", Run: (*Handler).applyPatch},
	{Capability: "tyrum.fs.bash", Run: (*Handler).bash},
}

// Capabilities lists the family.
func (h *Handler) Capabilities() []capabilities.CapabilityID { return family.Capabilities() }

// Readiness says whether there is a workspace, and for commands, whether walls stand.
func (h *Handler) Readiness(context.Context) []capabilities.Readiness {
	var all []capabilities.Readiness
	for _, t := range family {
		r := capabilities.Readiness{Capability: t.Capability, Isolation: capabilities.ClassT1}
		if h.root == nil {
			r.Reason, r.Fix = capabilities.ReasonOwnerDisabled, "The device's owner has to name a folder."
			r.Action = capabilities.Action{Key: capabilities.ActionNameWorkspace}
		} else if t.Capability == "tyrum.fs.bash" {
			h.walls(&r)
		}
		all = append(all, r)
	}
	return all
}

func (h *Handler) walls(r *capabilities.Readiness) {
	if h.opts.Start == nil {
		r.Reason, r.Fix = capabilities.ReasonIsolationMissing, "Commands cannot be confined on this system."
		return
	}
	class, err := h.opts.Start.Class(len(h.opts.Hosts) > 0)
	if r.Isolation = class; err != nil {
		e := capabilities.AsError(err)
		r.Reason, r.Fix = capabilities.ReasonIsolationMissing, e.PublicHint()
	} else if e := h.opts.Whole(h.dir); e != nil {
		r.Reason, r.Fix = capabilities.ReasonOwnerDisabled, e.PublicHint()
	} else {
		r.Deeper, r.Program = h.opts.Start.Runs(Command{Argv: []string{"bash"}, Dir: h.dir})
	}
	r.Hosts = h.opts.Hosts
}

// Handle carries out one call.
func (h *Handler) Handle(ctx context.Context, inv capabilities.Invocation) (capabilities.Output, error) {
	do, err := family.Find(inv.Capability)
	if err != nil {
		return capabilities.Output{}, err
	}
	ctx, inv, cancel := capabilities.Prepare(ctx, inv)
	defer cancel(nil)
	if h.root == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeNodeNotReady, "there is no workspace on this device")
	}
	out, err := do(h, ctx, inv)
	out.Untrusted = true // what stands in files may be anybody's
	return out, err
}

// CloseLane frees nothing: files know no lanes.
func (h *Handler) CloseLane(capabilities.LaneID) {}

// Close closes the workspace. Idempotent.
func (h *Handler) Close() error {
	if h.root == nil {
		return nil
	}
	if err := h.root.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// arguments reads a call's arguments, which fit the schema.
func arguments(inv capabilities.Invocation, into any) error {
	if err := json.Unmarshal(inv.Args, into); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	return nil
}
