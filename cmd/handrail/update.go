package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	keeper "github.com/handrail-dev/handrail/cmd/handrail/service"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/cmd/handrail/update"
	"github.com/handrail-dev/handrail/platform/service"
)

func newUpdateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "update --url URL --key FILE [-- COMMAND]",
		Short: "Put a newer release in the place of this program",
		Long: "Reads the signed metadata of a release at URL, and takes it if FILE's key signed it, it has not expired and its version is\n" +
			"newer. The program is checked by size and hash, swapped in one step, and swapped back if the gateway of the data directory\n" +
			"does not become ready with it. COMMAND starts that gateway anew; a gateway that is a service needs none. Make a backup first.",
		Example: "  sudo handrail update --url https://releases.example/handrail-update.json --key release.pem",
		Args:    cobra.ArbitraryArgs,
	}
	url := cmd.Flags().String("url", "", "where the metadata of releases is (https)")
	key := cmd.Flags().String("key", "", "file with the publisher's public key")
	check := cmd.Flags().Bool("check", false, "say whether there is a newer one, and do nothing")
	within := cmd.Flags().Duration("within", time.Minute, "how long the gateway may take to become ready")
	_, _ = cmd.MarkFlagRequired("url"), cmd.MarkFlagRequired("key")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		public, err := publisher(*key)
		if err != nil {
			return err
		}
		j := update.Job{URL: *url, Key: public, Version: programVersion(), Check: *check, Say: func(step string) {
			if !terminal.FlagsOf(cmd).JSON {
				fmt.Fprintln(cmd.ErrOrStderr(), terminal.Plain(step))
			}
		}}
		if j.Program, err = ownProgram(); err != nil {
			return err
		}
		if err := restarts(cmd, &j, args, *within); err != nil {
			return err
		}
		res, err := j.Run(cmd.Context())
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), res)
		}
		line := fmt.Sprintf("%s is the newest version.", res.From)
		switch res.State {
		case "available":
			line = fmt.Sprintf("Version %s is there; this is %s.", res.To, res.From)
		case "updated":
			line = fmt.Sprintf("Updated from %s to %s. The version before is %s.", res.From, res.To, res.Before)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(line))
		return err
	}
	return cmd
}

// publisher reads the key of whom the owner of this machine believes.
func publisher(file string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "There is no file %s.", file).
			WithHint("Name the file with the publisher's public key.")
	}
	if err != nil {
		return nil, err
	}
	return update.ParseKey(text)
}

// restarts has the job start the gateway of the data directory anew, if one runs there.
func restarts(cmd *cobra.Command, j *update.Job, argv []string, within time.Duration) error {
	data, err := datadir.Of(cmd)
	if err != nil || j.Check {
		return err
	}
	if terminal.FlagsOf(cmd).Data == "" && os.Getenv("HANDRAIL_DATA") == "" && len(argv) == 0 {
		if _, err := os.Stat(keeper.DataOf(runtime.GOOS)); err == nil { // the service's, where there is one
			data = datadir.Dir(keeper.DataOf(runtime.GOOS))
		}
	}
	running, err := data.ReadRunning()
	if err != nil { // none
		if len(argv) > 0 {
			return terminal.UsageHint("Name its data directory with --data.", "no gateway runs, and so %q is for nothing",
				strings.Join(argv, " "))
		}
		return nil
	}
	if len(argv) == 0 {
		argv = serviceRestart(cmd.Context(), string(data), j.Program)
	}
	if argv == nil {
		return capabilities.Errorf(capabilities.CodeConflict,
			"A gateway runs on %s (process %d), and is no service that this program could start anew.", data, running.PID).
			WithHint("Stop it first, or give the command that starts it anew after --.")
	}
	g, err := gatewayOf(data)
	if err != nil {
		return err
	}
	j.Restart = func(ctx context.Context) error {
		out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			return capabilities.Wrap(capabilities.CodeExecutionFailed, err,
				fmt.Sprintf("%s failed: %.300s", argv[0], capabilities.Printable(string(out))))
		}
		return nil
	}
	j.Ready = func(ctx context.Context, version string) error {
		ctx, done := context.WithTimeout(ctx, within)
		defer done()
		return g.ready(ctx, version)
	}
	return nil
}

// serviceRestart is the command that starts the gateway anew which the system keeps; nil: it keeps
// none.
func serviceRestart(ctx context.Context, data, program string) []string {
	p, err := service.For(runtime.GOOS, service.Spec{Role: service.Gateway, Program: program, Data: data, Account: "handrail"})
	if err != nil || !p.Runs(ctx) {
		return nil
	}
	switch runtime.GOOS {
	case "linux":
		return []string{"systemctl", "restart", p.Name}
	case "darwin":
		return []string{"launchctl", "kickstart", "-k", "system/" + p.Name}
	}
	return nil
}

// watched is a gateway whose start is waited for.
type watched struct {
	data  datadir.Dir
	token string
}

func gatewayOf(data datadir.Dir) (watched, error) {
	token, err := remote.ReadToken(filepath.Join(data.Gateway(), "admin.token"))
	return watched{data, token}, err
}

// ready waits until the gateway answers in that version. Its address may be another after a start.
func (w watched) ready(ctx context.Context, version string) error {
	last := capabilities.Errorf(capabilities.CodeNodeDisconnected, "nothing answers")
	for {
		if r, err := w.data.ReadRunning(); err == nil {
			if base, pin, err := r.Place(); err == nil {
				h, err := remote.At(base, w.token, pin).Health(ctx)
				switch {
				case err != nil:
					last = capabilities.AsError(err)
				case strings.TrimPrefix(h.Version, "v") == strings.TrimPrefix(version, "v"):
					return nil
				default:
					last = capabilities.Errorf(capabilities.CodeVersionSkew, "version %.40s answers", h.Version)
				}
			}
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(100 * time.Millisecond):
		}
	}
}
