package lane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/invoke"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// filmAskEvery is how often a recording is asked whether it is over.
const filmAskEvery = time.Second

func newLaneRecordCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "record LANE",
		Short: "Record the screen a lane works on, with its calls as chapters",
		Long: "Records the screen of the node that a lane is attached to, or of --node, as a WebM file whose chapters are the\n" +
			"lane's calls there. The shipped policy asks a person each time, and the person at the device sees it. It ends after\n" +
			"--for, with Ctrl+C, or at the console; the file is saved either way.",
		Example: "  handrail lane record robot --for 2m --out robot.webm",
		Args:    cobra.ExactArgs(1),
	}
	node := cmd.Flags().String("node", "", "the node; default: the one that is attached to the lane")
	display := cmd.Flags().String("display", "", "the display; default: the main one")
	length := cmd.Flags().Duration("for", 5*time.Minute, "how long at most, up to 14m")
	out := cmd.Flags().String("out", ".", "file to write, or a directory for a name of its own")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *length < time.Second || *length > 14*time.Minute {
			return terminal.UsageError("--for is 1s to 14m")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		on, err := c.NodeID(cmd, *node)
		if err != nil {
			return err
		}
		order := api.StartRecording{
			Lane: capabilities.LaneID(args[0]), Node: capabilities.NodeID(on), Display: *display, DurationMS: length.Milliseconds(),
		}
		stop := terminal.ShowWaiting(cmd, "waiting for the first picture, or a person's word")
		var film api.Recording
		err = c.Ask(cmd.Context(), http.MethodPost, remote.Path("recordings"), order, &film)
		stop()
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Recording %s on %s until %s; Ctrl+C stops it.\n", terminal.Plain(string(film.Lane)),
			terminal.Plain(string(film.Node)), film.Until.Local().Format(terminal.Clock))
		if film, err = awaitFilm(cmd.Context(), c, film); err != nil {
			return err
		}
		return saveFilm(cmd, c, film, *out)
	}
	return cmd
}

// awaitFilm waits until a recording is over. An interruption stops it, and does not end
// this command before its file is there.
func awaitFilm(ctx context.Context, c *remote.Gateway, film api.Recording) (api.Recording, error) {
	at := remote.Path("recordings", film.ID)
	method, asking := http.MethodGet, ctx
	tick := time.NewTicker(filmAskEvery)
	defer tick.Stop()
	for film.Result == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			if method == http.MethodGet {
				// From here on the gateway is asked to stop; it waits for the file itself.
				method, asking = http.MethodDelete, context.WithoutCancel(ctx)
			} else {
				<-tick.C
			}
		}
		if err := c.Ask(asking, method, at, nil, &film); err != nil && (asking.Err() == nil || !errors.Is(err, context.Canceled)) {
			return film, err
		}
	}
	return film, nil
}

func saveFilm(cmd *cobra.Command, c *remote.Gateway, film api.Recording, out string) error {
	r := *film.Result
	if err := invoke.Failure(r); err != nil {
		return err
	}
	if len(r.Artifacts) != 1 || r.Artifacts[0].Code != "" {
		return capabilities.Errorf(capabilities.CodeArtifactUnavailable, "the file did not arrive")
	}
	file := out
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, filepath.Base(filepath.Clean("/"+r.Artifacts[0].Name)))
	}
	// The command's own context may have ended: that is what stopped the recording.
	cmd.SetContext(context.WithoutCancel(cmd.Context()))
	if err := invoke.SaveArtifact(cmd, c, r.Artifacts[0].ID, file); err != nil {
		return err
	}
	raw, err := json.Marshal(map[string]any{"recording": film, "file": file})
	if err != nil {
		return err
	}
	var told struct {
		Whole    bool    `json:"whole"`
		MS       float64 `json:"duration_ms"`
		Chapters int     `json:"chapters"`
	}
	if err := json.Unmarshal(r.Output, &told); err != nil {
		return err
	}
	length := (time.Duration(told.MS) * time.Millisecond).Round(time.Second / 10)
	if err := remote.Confirmed(cmd, raw, "%s: %s, %s", file, length, terminal.Count(told.Chapters, "chapter")); err != nil || told.Whole {
		return err
	}
	return capabilities.Errorf(capabilities.CodeCaptureBroken, "it is only a part: the recording ended before its time")
}

func newLaneRecordingsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recordings",
		Short: "List recordings that run, and the latest that are over",
		Args:  cobra.NoArgs,
	}
	stop := cmd.Flags().String("stop", "", "stop this recording; its file is kept")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *stop != "" {
			return remote.Change(cmd, http.MethodDelete, remote.Path("recordings", *stop), nil,
				"stopped; its file is under 'handrail artifacts list'")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		all, done, err := remote.Listed[api.Recording](cmd, c, remote.Path("recordings"), "recordings")
		if done || err != nil {
			return err
		}
		if len(all) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), "Nothing is recorded.")
			return nil
		}
		t := terminal.NewTable(cmd.OutOrStdout(), "RECORDING", "LANE", "NODE", "BY", "STATE", "ARTIFACT")
		for _, f := range all {
			state, file := "until "+f.Until.Local().Format(terminal.Clock), ""
			if f.Result != nil {
				state = string(f.Result.Status)
				for _, a := range f.Result.Artifacts {
					file = string(a.ID)
				}
			}
			t.Row(f.ID, string(f.Lane), string(f.Node), string(f.Principal), state, file)
		}
		t.Flush()
		return nil
	}
	return cmd
}
