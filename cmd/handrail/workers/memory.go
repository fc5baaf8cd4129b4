package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/memory"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewMemoryCmd returns the command that is about what a worker remembers.
func NewMemoryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "See, change and forget what your worker remembers",
		Long: "A worker remembers what you ask it to ('remember that …'), in your words, and nothing that a page, a file or a model said.\n" +
			"Private facts are kept only after you agreed, credentials never.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	whose := cmd.PersistentFlags().String("principal", "", "whose memory; for admins (default: the worker of this data directory)")
	cmd.AddCommand(newMemoryListCmd(whose), newMemoryShowCmd(whose), newMemoryEditCmd(whose), newMemoryForgetCmd(whose),
		newMemoryExportCmd(whose))
	return cmd
}

// callerFor is the worker's own way to the gateway, or an admin's to what is another's.
func callerFor(cmd *cobra.Command, whose string) (*remote.Gateway, error) {
	return remote.FindFor(cmd, whose == "" && os.Getenv("HANDRAIL_URL") == "" && os.Getenv("HANDRAIL_TOKEN") == "")
}

func newMemoryListCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list [WORDS]",
		Short: "List what is remembered, the newest first, or what has these words",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := callerFor(cmd, *whose)
			if err != nil {
				return err
			}
			facts, done, err := remote.Listed[api.Fact](cmd, c,
				remote.Query(remote.Path("memory"), "q", strings.Join(args, " "), "principal", *whose, "limit", "1000"), "facts")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(facts) == 0 {
				fmt.Fprintln(out, "Nothing is remembered.")
				return nil
			}
			t := terminal.NewTable(out, "FACT", "SINCE", "UNTIL", "PRIVATE", "TEXT")
			for _, f := range facts {
				private, until := "-", "-"
				if !f.Expires.IsZero() {
					until = f.Expires.Local().Format("2006-01-02 15:04")
				}
				if f.Sensitivity == string(fact.High) {
					private = "yes"
				}
				t.Row(f.ID, f.Created.Local().Format("2006-01-02"), until, private, capabilities.Printable(f.Text))
			}
			t.Flush()
			return nil
		},
	}
}

func newMemoryShowCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "show FACT",
		Short: "Show a fact with where it is from",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := callerFor(cmd, *whose)
			if err != nil {
				return err
			}
			var f api.Fact
			if err := c.Ask(cmd.Context(), http.MethodGet, remote.Query(remote.Path("memory", args[0]), "principal", *whose), nil, &f); err != nil {
				return err
			}
			if terminal.FlagsOf(cmd).JSON {
				return terminal.PrintJSON(cmd.OutOrStdout(), f)
			}
			t := terminal.NewTable(cmd.OutOrStdout(), "FACT", f.ID)
			t.Row("text", capabilities.Printable(f.Text))
			t.Row("said by", capabilities.Printable(f.Source))
			t.Row("kept", f.Created.Local().Format("2006-01-02 15:04"))
			if !f.Expires.IsZero() {
				t.Row("until", f.Expires.Local().Format("2006-01-02 15:04"))
			}
			t.Row("sensitivity", f.Sensitivity)
			t.Flush()
			return nil
		},
	}
}

func newMemoryEditCmd(whose *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit FACT [TEXT]",
		Short: "Give a fact other words, or another end",
		Long: "Other words are kept under the same ID. Where they are private, --agree says that you want them kept.\n" +
			"--expires says until when it is kept: the end of a day, a time, or how long from now; never takes the end off.",
		Args: cobra.RangeArgs(1, 2),
	}
	agree := cmd.Flags().Bool("agree", false, "keep it although it is private")
	expires := cmd.Flags().String("expires", "", "until when: 2026-12-31, '2026-12-31 15:04', 12h, 30d, or never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		edit := api.EditFact{Agreed: *agree, Lasting: *expires == "never"}
		if len(args) > 1 {
			edit.Text = args[1]
		}
		if *expires != "" && !edit.Lasting {
			var err error
			if edit.Expires, err = endAt(*expires, time.Now()); err != nil {
				return err
			}
		}
		if edit.Text == "" && *expires == "" {
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "there is nothing to change").
				WithHint("Give other words after the fact's ID, or --expires.")
		}
		c, err := callerFor(cmd, *whose)
		if err != nil {
			return err
		}
		err = c.Change(cmd, http.MethodPatch, remote.Query(remote.Path("memory", args[0]), "principal", *whose),
			edit, "%s is changed", args[0])
		var coded *capabilities.Error
		if errors.As(err, &coded) && coded.Code == capabilities.CodeAcknowledgementRequired {
			return coded.WithHint("If you want it kept, give --agree.")
		}
		return err
	}
	return cmd
}

// endAt returns the time that a person means by a day (its end), a time, or a duration from now.
func endAt(s string, now time.Time) (time.Time, error) {
	if t, err := time.ParseInLocation("2006-01-02", s, now.Location()); err == nil {
		return t.AddDate(0, 0, 1), nil
	}
	if t, err := time.ParseInLocation("2006-01-02 15:04", s, now.Location()); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n > 0 {
			return now.AddDate(0, 0, int(n)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	return time.Time{}, capabilities.
		Errorf(capabilities.CodeInvalidRequest, "--expires %s is no day, time or duration", capabilities.Escape(s)).
		WithHint("Give a day such as 2026-12-31, a time such as '2026-12-31 15:04', a duration such as 12h or 30d, or never.")
}

func newMemoryForgetCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "forget FACT",
		Short: "Forget a fact: it is overwritten on the disk",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := callerFor(cmd, *whose)
			if err != nil {
				return err
			}
			return c.Change(cmd, http.MethodDelete, remote.Query(remote.Path("memory", args[0]), "principal", *whose), nil, "%s is forgotten",
				args[0])
		},
	}
}

func newMemoryExportCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write everything that is remembered, one JSON object a line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := callerFor(cmd, *whose)
			if err != nil {
				return err
			}
			var list api.FactList
			if err := c.Ask(cmd.Context(), http.MethodGet, remote.Query(remote.Path("memory"), "principal", *whose, "limit", "10000"), nil,
				&list); err != nil {
				return err
			}
			enc := json.NewEncoder(cmd.OutOrStdout())
			for _, f := range list.Facts {
				if err := enc.Encode(f); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// workerMemory is what the gateway remembers for a worker of this process.
type workerMemory struct{ remote *remote.Gateway }

func (m workerMemory) Find(ctx context.Context, text string, limit int) ([]worker.Fact, error) {
	list, err := m.remote.Facts(ctx, text, limit)
	if err != nil {
		return nil, m.remote.Told(err)
	}
	facts := make([]worker.Fact, 0, len(list))
	for _, f := range list {
		facts = append(facts, workerFact(f))
	}
	return facts, nil
}

func (m workerMemory) Keep(ctx context.Context, key memory.Key, text, source string, agreed bool, expires time.Time) (worker.Fact,
	error,
) {
	f, err := m.remote.KeepFact(ctx, api.KeepFact{
		Subject: key.Subject, Attribute: key.Attribute, Text: text, Source: source, Agreed: agreed, Expires: expires,
	})
	return workerFact(f), m.remote.Told(err)
}

func (m workerMemory) Forget(ctx context.Context, id string) error {
	return m.remote.Told(m.remote.ForgetFact(ctx, id))
}

func workerFact(f api.Fact) worker.Fact {
	return worker.Fact{ID: f.ID, Text: f.Text, Sensitivity: fact.Sensitivity(f.Sensitivity)}
}
