package workers

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/turn"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewTurnsCmd returns the command that lists what workers did.
func NewTurnsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "turns",
		Short: "List what workers did: one line for each turn",
		Long: "Lists the newest turns first: when, whose, what was wanted, how many calls; your own worker's or, for operators and admins, " +
			"everybody's.\n" +
			"A turn is what its worker says of itself; 'handrail calls' lists what the gateway saw.\n" +
			"One is lost whose worker said nothing any more: it was killed, or its machine is away.",
		Args: cobra.NoArgs,
	}
	listsNewest(cmd, "No worker has done anything yet.", (*remote.Gateway).Turns, func(out io.Writer, list []api.Turn) error {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "TURN\tWHEN\tWHOSE\tINTENT\tCALLS\tTOOK")
		for _, t := range list {
			s := t.SoFar()
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", t.ID, t.Started.Local().
				Format("2006-01-02 15:04:05"), terminal.Plain(string(t.Principal)), terminal.Plain(s.Intent), len(s.Calls),
				turnWords(&t, time.Now()))
		}
		return w.Flush()
	})
	cmd.AddCommand(newTurnsShowCmd(), newTurnsWatchCmd())
	return cmd
}

func newTurnsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show TURN",
		Short:             "Show the stages of one turn",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			t, err := c.Turn(cmd.Context(), args[0])
			if err != nil {
				return c.Told(err)
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintItems(cmd.OutOrStdout(), []api.Turn{t})
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, s := range t.Stages {
				fmt.Fprintf(w, stageLine, s.At.Local().Format("15:04:05.000"), s.Stage, terminal.Plain(stageWords(s)))
			}
			if t.Summary() == nil {
				fmt.Fprintf(w, "\t%s\t%s\n", t.State, tookWords(t.Took(time.Now())))
			}
			return w.Flush()
		},
	}
}

const stageLine = "%s\t%s\t%s\n"

func newTurnsWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "watch TURN",
		Short:             "Follow a turn, a line for each stage, until it has ended",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			said, state := 0, turn.Ended
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 19, 0, 2, ' ', 0)
			err = c.WatchTurn(cmd.Context(), args[0], func(t api.Turn) error {
				state = t.State
				if terminal.FlagsOf(cmd).JSON {
					return terminal.PrintJSON(cmd.OutOrStdout(), t)
				}
				for _, s := range t.Stages[min(said, len(t.Stages)):] {
					fmt.Fprintf(w, stageLine, s.At.Local().Format("15:04:05.000"), s.Stage, terminal.Plain(stageWords(s)))
				}
				said = len(t.Stages)
				return w.Flush()
			})
			if err == nil && state == turn.Lost {
				err = capabilities.Errorf(capabilities.CodeUnknownOutcome, "the turn is lost: its worker says nothing any more").
					WithHint("Look at its calls, which the gateway recorded itself.")
			}
			return c.Told(err)
		},
	}
}

// stageWords is one line about a stage.
func stageWords(s turn.Stage) string {
	switch {
	case s.Router != nil:
		text := fmt.Sprintf("%s (%.2f, by %s)", s.Router.Intent, s.Router.Confidence, s.Router.By)
		if s.Router.Asked {
			text += ", unclear: the person was asked"
		}
		return text
	case s.Policy != nil:
		return fmt.Sprintf("%d tools allowed, %d offered; needs %s", len(s.Policy.Allowed), len(s.Policy.Offered), orNothing(s.Policy.Required))
	case s.Permission != nil:
		if s.Permission.By == "" {
			return fmt.Sprintf("%s: nothing covers it", s.Permission.Tool)
		}
		return fmt.Sprintf("%s: %s", s.Permission.Tool, s.Permission.By)
	case s.Call != nil:
		end := s.Call.Status
		if s.Call.Code != "" {
			end = string(s.Call.Code)
		}
		return strings.TrimSpace(fmt.Sprintf("%s: %s, %.0f ms %s", s.Call.Tool, end, s.Call.DurationMS, s.Call.CallID))
	case s.Response != nil:
		text := fmt.Sprintf("%d rounds", s.Response.RoundTrips)
		if s.Response.Tokens > 0 {
			text += fmt.Sprintf(", %d tokens", s.Response.Tokens)
		}
		if s.Response.Stopped != "" {
			text += ", cut off: " + s.Response.Stopped
		}
		return text
	case s.Memory != nil:
		words := make([]string, 0, len(s.Memory))
		for _, n := range s.Memory {
			words = append(words, strings.TrimSpace(n.Status+" "+n.Fact))
		}
		return strings.Join(words, ", ")
	case s.Cleanup != nil:
		return fmt.Sprintf("%d permissions taken back", s.Cleanup.Revoked)
	case s.Pipeline != nil:
		return fmt.Sprintf("%s, %d calls, %d rounds, %d changes of memory", s.Pipeline.Intent, len(s.Pipeline.Calls), s.Pipeline.RoundTrips,
			s.Pipeline.MemoryWrites)
	}
	return ""
}

// turnWords is how long a turn took, and that it runs, or was lost.
func turnWords(t *api.Turn, now time.Time) string {
	took := tookWords(t.Took(now))
	switch t.State {
	case turn.Running:
		return "runs for " + took
	case turn.Lost:
		return "lost after " + took
	}
	return took
}

// tookWords is how long a turn took: most take less than a second.
func tookWords(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return capabilities.Spoken(d)
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// workerRecord is the gateway's record of a worker of this process.
type workerRecord struct{ remote *remote.Gateway }

func (r workerRecord) TellTurn(ctx context.Context, c turn.Claim) (time.Duration, error) {
	t, err := r.remote.ClaimTurn(ctx, c)
	return time.Duration(t.LeaseMS) * time.Millisecond, err
}

func (r workerRecord) ClaimTurn(ctx context.Context, c turn.Claim) error {
	_, err := r.remote.ClaimTurn(ctx, c)
	return r.remote.Told(err)
}
