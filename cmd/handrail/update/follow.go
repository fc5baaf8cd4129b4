package update

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Node is a node of this process.
type Node interface {
	// Run keeps it in service until ctx ends or, after Leave, until it is idle (nil).
	Run(ctx context.Context) error
	// Leave has Run end once no call has run for quiet.
	Leave(quiet time.Duration)
}

// Follower keeps a node in service in the version of its gateway. All fields are required unless a
// default is named.
type Follower struct {
	// Job is the update. Without a URL only a program that is in its place already is taken.
	Job Job
	// Command are the words after the program's name that run the node. With --once it ends with 0
	// after it reached the gateway.
	Command []string
	// Open makes the node, which tells heard the version of the gateway at each connection.
	Open func(heard func(version string)) (Node, error)
	// Become runs the program in its place instead of this one, and returns only if it cannot.
	Become func() error
	// Quiet is for how long no call must have run before the node ends, Within how long the new
	// program may take to reach the gateway, Again when what failed is done again.
	Quiet, Within, Again time.Duration
	Out, Err             io.Writer // of the program that is tried
	Log                  *slog.Logger

	mu      sync.Mutex
	gateway string        // its version, as it was heard last
	news    chan struct{} // has room for one
}

// Able says why the node cannot follow here; nil: it can.
func (f *Follower) Able() error {
	if _, ok := parseVersion(f.Job.Version); !ok {
		return noRelease(f.Job.Version)
	}
	if f.Job.URL == "" {
		return nil
	}
	_, err := newSource(f.Job.URL)
	return errors.Join(others(f.Job.Program), err)
}

// Run ends when ctx does, when the node ends by itself, or when another program takes its place.
func (f *Follower) Run(ctx context.Context) error {
	f.news = make(chan struct{}, 1)
	for wait := time.Duration(0); ; wait = f.Again {
		n, err := f.Open(f.heard)
		if err != nil {
			return err
		}
		switch next, err := f.serve(ctx, n, wait); {
		case err != nil || ctx.Err() != nil || next == ends:
			return err
		case next == becomes:
			f.Log.Warn("node.updated", "from", f.Job.Version, "program", f.Job.Program)
			return f.Become()
		}
	}
}

// next is what comes after a node ended.
type next int

const (
	ends    next = iota // nothing
	goesOn              // the same program: the new one is not good here
	becomes             // the new program, which is in its place
)

// heard takes a gateway's version.
func (f *Follower) heard(version string) {
	f.mu.Lock()
	changed := f.gateway != version
	f.gateway = version
	f.mu.Unlock()
	if changed {
		select {
		case f.news <- struct{}{}:
		default: // it is looked at soon
		}
	}
}

// serve runs the node until it ends.
func (f *Follower) serve(ctx context.Context, n Node, wait time.Duration) (then next, err error) {
	looks, stop := context.WithCancel(ctx)
	defer stop()
	gone, looked := make(chan struct{}), make(chan struct{})
	var asked atomic.Bool
	go func() {
		defer close(looked)
		in := f.look(looks, wait, func() error {
			asked.Store(true)
			n.Leave(f.Quiet)
			<-gone
			return errors.Join(err, ctx.Err())
		})
		switch {
		case in:
			then = becomes
		case asked.Load():
			then = goesOn
		}
	}()
	err = n.Run(ctx)
	close(gone)
	if !asked.Load() {
		stop()
	}
	<-looked
	return then, err
}

// look waits for a gateway of a newer version and has its program put in place. leave ends the
// node; after it look returns. It reports whether the program is in place.
func (f *Follower) look(ctx context.Context, wait time.Duration, leave func() error) bool {
	again := time.After(wait)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-f.news: // another version is no try of the last one
		case <-again:
		}
		f.mu.Lock()
		version := f.gateway
		f.mu.Unlock()
		if !Newer(version, f.Job.Version) {
			continue
		}
		left := false
		err := f.take(ctx, version, func() error { left = true; return leave() })
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		e := capabilities.AsError(err)
		f.Log.Warn("node.not_updated", "version", f.Job.Version, "gateway", version, "code", e.Code, "err", err, "hint", e.PublicHint())
		if left {
			return false
		}
		again = time.After(f.Again)
	}
}

// take puts the program of that version in place, or takes the one that is there already.
func (f *Follower) take(ctx context.Context, version string, leave func() error) error {
	try := func(ctx context.Context, program string) error {
		if err := leave(); err != nil {
			return err
		}
		return f.try(ctx, program)
	}
	there := is(ctx, f.Job.Program, version)
	if there == nil {
		return try(ctx, f.Job.Program)
	}
	if f.Job.URL == "" {
		return capabilities.Wrap(capabilities.CodeUpdateRefused, there,
			fmt.Sprintf("The gateway is of version %s, and the program %s is not.", version, filepath.Base(f.Job.Program))).
			WithHint("Update the program on this device.")
	}
	j := f.Job
	j.Most, j.Try = version, try
	res, err := j.Run(ctx)
	if err == nil && res.State != "updated" {
		err = refused("The place of releases has no version that is newer than %s.", j.Version).
			WithHint("The device looks again later.")
	}
	return err
}

// try runs the program as this device's node until it reached the gateway.
func (f *Follower) try(ctx context.Context, program string) error {
	ctx, done := context.WithTimeout(ctx, f.Within)
	defer done()
	cmd := exec.CommandContext(ctx, program, append(append([]string(nil), f.Command...), "--once")...)
	cmd.Stdout, cmd.Stderr = f.Out, f.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	err := cmd.Run()
	if err == nil {
		return nil
	}
	why := err.Error()
	if ctx.Err() != nil {
		why = "it did not in " + f.Within.String()
	}
	return capabilities.Wrap(capabilities.CodeUpdateRefused, err,
		fmt.Sprintf("The new program did not reach the gateway (%s), so the one before goes on.", strings.TrimSuffix(why, "."))).
		WithHint("Read the log of the node for why.")
}
