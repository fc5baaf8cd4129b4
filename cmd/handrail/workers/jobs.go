package workers

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewJobsCmd returns the command that queues and shows jobs.
func NewJobsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List, queue and cancel what 'handrail worker' does",
		Long: "Lists jobs, the newest first: your own worker's or, for operators and admins, everybody's. A job is a task in your words, as " +
			"'handrail run'\n" +
			"takes it; 'handrail worker' does one after the other, the highest priority first.",
		Example: "  handrail jobs add 'read https://example.com/'\n  handrail jobs add --schedule '0 7 * * 1-5' 'list the folder inbox'",
		Args:    cobra.NoArgs,
	}
	listsNewest(cmd, "No job is queued.", (*remote.Gateway).Jobs, func(out io.Writer, list []api.Job) error {
		t := terminal.NewTable(out, "JOB", "STATE", "DUE", "WHOSE", "PRIORITY", "CALLS", "TASK")
		for _, j := range list {
			state := j.State
			if j.Cancel && state == api.JobRunning {
				state = "cancelling"
			}
			t.Row(j.ID, state, j.Due.Local().Format("2006-01-02 15:04"), terminal.Plain(string(j.Principal)), fmt.Sprint(j.Priority),
				fmt.Sprint(j.Calls),
				terminal.Plain(capabilities.Clip(j.Text, 60)))
		}
		t.Flush()
		return nil
	})
	cmd.AddCommand(newJobsAddCmd(), newJobsShowCmd(), newJobsWatchCmd(), newJobsCancelCmd())
	return cmd
}

func newJobsAddCmd() *cobra.Command {
	var n api.NewJob
	var at, file string
	cmd := &cobra.Command{Use: "add TASK", Short: "Queue a task for the worker of this data directory"}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if file != "" {
			return nil
		}
		return cobra.MinimumNArgs(1)(cmd, args)
	}
	f := cmd.Flags()
	f.IntVar(&n.Priority, "priority", 0, "from -100 to 100; the highest is done first")
	f.StringVar(&n.Schedule, "schedule", "", "do it again and again: minute, hour, day, month, weekday in UTC, or @daily and the like")
	f.StringVar(&at, "at", "", "not before this time (RFC 3339)")
	f.StringVar((*string)(&n.Lane), "lane", "", "the lane that its calls belong to; one job of a lane runs at a time (default: the token's)")
	f.StringVar((*string)(&n.Principal), "principal", "", "whose worker does it; for admins (default: the worker of this data directory)")
	f.StringVar(&file, "pipeline", "", "file of steps that the worker takes, in place of what TASK would be understood as")
	f.StringVar(&n.Request, "request-id", "", "a name of yours; the same again is the same job")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n.Text = strings.Join(args, " ")
		if file != "" {
			text, _, err := readPipeline(file) // a fault of it is known now, not at the worker
			if err != nil {
				return err
			}
			n.Pipeline = string(text)
		}
		if at != "" {
			due, err := time.Parse(time.RFC3339, at)
			if err != nil {
				return terminal.UsageError("--at is no time as 2026-12-01T07:00:00Z")
			}
			n.Due = due
		}
		c, err := callerFor(cmd, string(n.Principal))
		if err != nil {
			return err
		}
		one, err := c.PutJob(cmd.Context(), n)
		if err != nil {
			return c.Told(err)
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), one)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is queued for %s.\n", one.ID, one.Due.Local().Format("2006-01-02 15:04:05"))
		return nil
	}
	return cmd
}

// again is what to do about a job that failed and has no next time.
const again = "Nothing of it is done again by itself. When what stood in its way is gone, queue it anew: handrail jobs add TASK"

// jobCaller is the worker's own way to the gateway.
func jobCaller(cmd *cobra.Command) (*remote.Gateway, error) { return callerFor(cmd, "") }

func newJobsShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "show JOB",
		Short:             "Show a job with what came of it",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			j, err := c.Job(cmd.Context(), args[0])
			if err != nil {
				return c.Told(err)
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), j)
			}
			out := cmd.OutOrStdout()
			taken, made := terminal.Count(j.Taken, "time"), terminal.Count(j.Calls, "call")
			fmt.Fprintf(out, "%s: %s, run %d, taken %s, %s\n%s\n", j.ID, j.State, j.Run, taken, made, terminal.PlainBlock(j.Text))
			if j.Pipeline != "" {
				fmt.Fprintln(out, "along a pipeline of", terminal.Count(strings.Count(j.Pipeline, "\n"), "line"))
			}
			if j.State == api.JobRunning && j.Stage != "" {
				fmt.Fprintf(out, "%s is at %s\n", terminal.Plain(j.Worker), terminal.Plain(j.Stage))
			}
			if j.Schedule != "" {
				fmt.Fprintf(out, "schedule %s, next %s\n", terminal.Plain(j.Schedule), j.Due.Local().Format("2006-01-02 15:04"))
			}
			if j.Code != "" {
				fmt.Fprintln(out, "failed:", terminal.Plain(string(j.Code)))
			}
			if j.Result != "" {
				fmt.Fprintln(out, terminal.PlainBlock(j.Result))
			}
			if j.State == api.JobFailed {
				fmt.Fprintln(out, again)
			}
			return nil
		},
	}
}

func newJobsWatchCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "watch JOB",
		Short:             "Follow a job, a line for each change, until it has ended",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			var last api.Job
			err = c.WatchJob(cmd.Context(), args[0], func(j api.Job) error {
				last = j
				if terminal.FlagsOf(cmd).JSON {
					return terminal.PrintJSON(cmd.OutOrStdout(), j)
				}
				_, err := fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(jobLine(&j)))
				return err
			})
			switch {
			case err != nil:
				return c.Told(err)
			case last.State == api.JobDone && !terminal.FlagsOf(cmd).JSON && last.Result != "":
				fmt.Fprintln(cmd.OutOrStdout(), terminal.PlainBlock(last.Result))
			case last.State == api.JobFailed:
				return capabilities.Errorf(cmp.Or(last.Code, capabilities.CodeExecutionFailed), "the job failed: %s", last.Result).WithHint(again)
			case last.State == api.JobCancelled:
				return capabilities.Errorf(capabilities.CodeCancelled, "the job was cancelled")
			}
			return nil
		},
	}
}

// jobLine is how a job stands, in one line.
func jobLine(j *api.Job) string {
	line := j.State
	if j.Cancel && j.State == api.JobRunning {
		line = "cancelling"
	}
	if j.State == api.JobRunning {
		line += " by " + j.Worker
		if j.Stage != "" {
			line += ", at " + j.Stage
		}
	}
	if j.State == api.JobQueued {
		return line + " for " + j.Due.Local().Format("2006-01-02 15:04:05")
	}
	return line + ", " + terminal.Count(j.Calls, "call")
}

func newJobsCancelCmd() *cobra.Command {
	return &cobra.Command{
		Use:               "cancel JOB",
		Short:             "Cancel a job and its schedule, or forget one that ended",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			j, err := c.CancelJob(cmd.Context(), args[0])
			if err != nil {
				return c.Told(err)
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), j)
			}
			switch j.State {
			case api.JobRunning:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is cancelled; its worker ends it.\n", j.ID)
			case api.JobCancelled:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is cancelled.\n", j.ID)
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "%s is forgotten.\n", j.ID)
			}
			return nil
		},
	}
}
