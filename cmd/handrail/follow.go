package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/cmd/handrail/update"
)

// followFlags are what the owner of a device says about its gateway's updates.
type followFlags struct {
	on       *bool
	url, key *string
	quiet    *time.Duration
	once     *bool
}

func addFollowFlags(cmd *cobra.Command) followFlags {
	return followFlags{
		cmd.Flags().Bool("follow", false, "go on with a newer program once the gateway is of that version (default: not)"),
		cmd.Flags().String("follow-url", "", "where the metadata of releases is (https), from which --follow takes the program"),
		cmd.Flags().String("follow-key", "", "file with the publisher's public key, for --follow-url"),
		cmd.Flags().Duration("follow-quiet", time.Minute, "how long no call must have run before --follow changes the program"),
		cmd.Flags().Bool("once", false, "end as soon as the gateway took this device in"),
	}
}

// follower returns what keeps the node in the gateway's version; nil: the owner does not allow it.
func (f followFlags) follower(cmd *cobra.Command, log *slog.Logger) (*update.Follower, error) {
	switch {
	case (*f.url == "") != (*f.key == ""):
		return nil, terminal.UsageError("--follow-url and --follow-key go together")
	case *f.url != "" && !*f.on:
		return nil, terminal.UsageError("--follow-url is for --follow")
	case !*f.on || *f.once:
		return nil, nil
	case !follows:
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "A program that runs cannot be replaced on this system.").
			WithHint("Leave --follow out, and update the program of this device by hand.")
	}
	to := &update.Follower{
		Command: os.Args[1:], Quiet: *f.quiet, Within: 2 * time.Minute, Again: time.Hour,
		Out: cmd.OutOrStdout(), Err: cmd.ErrOrStderr(), Log: log,
		Job: update.Job{URL: *f.url, Version: programVersion(), Say: func(step string) { log.Info("node.update", "step", step) }},
	}
	var err error
	if *f.url != "" {
		if to.Job.Key, err = publisher(*f.key); err != nil {
			return nil, err
		}
	}
	if to.Job.Program, err = ownProgram(); err != nil {
		return nil, err
	}
	if err := to.Able(); err != nil {
		return nil, err
	}
	to.Become = func() error { return become(to.Job.Program) }
	return to, nil
}

// ownProgram is the file of this program.
func ownProgram() (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(program)
}
