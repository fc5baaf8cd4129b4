package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/memory"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/fact"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newMemoryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "See, change and forget what your worker remembers",
		Long: "A worker remembers what you ask it to ('remember that …'), in your words, and nothing that a page, a file or a model said.\n" +
			"Private facts are kept only after you agreed, credentials never.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	whose := cmd.PersistentFlags().String("principal", "", "whose memory; for admins (default: the worker of this data directory)")
	cmd.AddCommand(newMemoryListCmd(whose), newMemoryShowCmd(whose), newMemoryEditCmd(whose), newMemoryForgetCmd(whose), newMemoryExportCmd(whose))
	return cmd
}

// memoryCaller is the worker's own way to the gateway, or an admin's to the memory of another.
func memoryCaller(cmd *cobra.Command, whose string) (*remote, error) {
	return newCaller(cmd, whose == "" && os.Getenv("HANDRAIL_URL") == "" && os.Getenv("HANDRAIL_TOKEN") == "")
}

func newMemoryListCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "list [WORDS]",
		Short: "List what is remembered, the newest first, or what has these words",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := memoryCaller(cmd, *whose)
			if err != nil {
				return err
			}
			facts, done, err := listed[api.Fact](cmd, c, query(path("memory"), "q", strings.Join(args, " "), "principal", *whose, "limit", "1000"), "facts")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(facts) == 0 {
				fmt.Fprintln(out, "Nothing is remembered.")
				return nil
			}
			t := newTable(out, "FACT", "SINCE", "PRIVATE", "TEXT")
			for _, f := range facts {
				private := "-"
				if f.Sensitivity == string(fact.High) {
					private = "yes"
				}
				t.row(f.ID, f.Created.Local().Format("2006-01-02"), private, capabilities.Printable(f.Text))
			}
			t.flush()
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
			c, err := memoryCaller(cmd, *whose)
			if err != nil {
				return err
			}
			var f api.Fact
			if err := c.do(cmd.Context(), http.MethodGet, query(path("memory", args[0]), "principal", *whose), nil, &f); err != nil {
				return err
			}
			if commonOf(cmd).json {
				return printJSON(cmd.OutOrStdout(), f)
			}
			t := newTable(cmd.OutOrStdout(), "FACT", f.ID)
			t.row("text", capabilities.Printable(f.Text))
			t.row("said by", capabilities.Printable(f.Source))
			t.row("kept", f.Created.Local().Format("2006-01-02 15:04"))
			if !f.Expires.IsZero() {
				t.row("until", f.Expires.Local().Format("2006-01-02 15:04"))
			}
			t.row("sensitivity", f.Sensitivity)
			t.flush()
			return nil
		},
	}
}

func newMemoryEditCmd(whose *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit FACT TEXT",
		Short: "Give a fact other words",
		Long:  "Other words are kept under the same ID. Where they are private, --agree says that you want them kept.",
		Args:  cobra.ExactArgs(2),
	}
	agree := cmd.Flags().Bool("agree", false, "keep it although it is private")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := memoryCaller(cmd, *whose)
		if err != nil {
			return err
		}
		return c.change(cmd, http.MethodPatch, query(path("memory", args[0]), "principal", *whose), api.EditFact{Text: args[1], Agreed: *agree}, "%s is changed", args[0])
	}
	return cmd
}

func newMemoryForgetCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "forget FACT",
		Short: "Forget a fact: it is overwritten on the disk",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := memoryCaller(cmd, *whose)
			if err != nil {
				return err
			}
			return c.change(cmd, http.MethodDelete, query(path("memory", args[0]), "principal", *whose), nil, "%s is forgotten", args[0])
		},
	}
}

func newMemoryExportCmd(whose *string) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write everything that is remembered, one JSON object a line",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := memoryCaller(cmd, *whose)
			if err != nil {
				return err
			}
			var list api.FactList
			if err := c.do(cmd.Context(), http.MethodGet, query(path("memory"), "principal", *whose, "limit", "10000"), nil, &list); err != nil {
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
type workerMemory struct{ remote *remote }

func (m workerMemory) Find(ctx context.Context, text string, limit int) ([]worker.Fact, error) {
	list, err := m.remote.Facts(ctx, text, limit)
	if err != nil {
		return nil, m.remote.told(err)
	}
	facts := make([]worker.Fact, 0, len(list))
	for _, f := range list {
		facts = append(facts, workerFact(f))
	}
	return facts, nil
}

func (m workerMemory) Keep(ctx context.Context, key memory.Key, text, source string, agreed bool) (worker.Fact, error) {
	f, err := m.remote.KeepFact(ctx, api.KeepFact{Subject: key.Subject, Attribute: key.Attribute, Text: text, Source: source, Agreed: agreed})
	return workerFact(f), m.remote.told(err)
}

func (m workerMemory) Forget(ctx context.Context, id string) error {
	return m.remote.told(m.remote.ForgetFact(ctx, id))
}

func workerFact(f api.Fact) worker.Fact {
	return worker.Fact{ID: f.ID, Text: f.Text, Sensitivity: fact.Sensitivity(f.Sensitivity)}
}
