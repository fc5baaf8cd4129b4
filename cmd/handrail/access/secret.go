package access

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewSecretCmd makes 'handrail secret'.
func NewSecretCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Keep secrets that agents may have pasted but never see",
		Long: "An agent names a secret and the gateway puts it into a device's clipboard, once policy and a person allow it.\n" +
			"No command, answer, log or ledger entry shows a value. Secrets that are kept elsewhere (a password manager, a\n" +
			"file, the environment) are named in secret-sources.json in the gateway's data directory.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretSetCmd(), newSecretListCmd(), newSecretAllowCmd(), newSecretRmCmd(), newSecretDoneCmd())
	return cmd
}

func newSecretSetCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME",
		Short: "Keep a value, asked for or read from standard input",
		Long: "Asks for the value, or reads it from standard input without one line end after it; never from the command\n" +
			"line, which every process of the machine can read. A value that was there before is replaced.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			value, err := readSecret(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Ask(cmd.Context(), http.MethodPut, remote.Path("secrets", args[0]), api.SetSecret{Value: value}, &raw); err != nil {
				return err
			}
			return remote.Confirmed(cmd, raw, "secret %s is set; let an agent use it with 'handrail secret allow'", args[0])
		},
	}
}

// readSecret returns a value; piped, one line's end is none of it.
func readSecret(ctx context.Context, in io.Reader, prompt io.Writer) (string, error) {
	text, err := terminal.ReadHidden(ctx, in, prompt, "Value: ", capabilities.MaxSecret+4)
	if !terminal.Interactive(in) {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	return text, err
}

func newSecretListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List secrets and who may use them, without values",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			secrets, done, err := remote.Listed[api.Secret](cmd, c, remote.Path("secrets"), "secrets")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if len(secrets) == 0 {
				fmt.Fprintln(out, "No secrets yet.")
				return nil
			}
			t := terminal.NewTable(out, "SECRET", "KEPT", "AGENT", "ALIAS", "REFERENCE", "SHOWN AS")
			for _, s := range secrets {
				if len(s.References) == 0 {
					t.Row(s.Name, s.Source, "-", "-", "-", "-")
				}
				for _, r := range s.References {
					t.Row(s.Name, s.Source, string(r.Owner), r.Alias, r.ID, r.Display)
				}
			}
			t.Flush()
			return nil
		},
	}
}

func newSecretAllowCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "allow NAME",
		Short: "Let an agent have a secret put into a device's clipboard",
		Long: "Gives the agent a reference to the secret, which is listed to it with the tool. Policy still decides on every\n" +
			"call, and the shipped policy asks a person each time.",
		Args: cobra.ExactArgs(1),
	}
	agent := cmd.Flags().String("principal", "", "agent that may use it (required)")
	alias := cmd.Flags().String("alias", "", "name the agent calls it by, unique among its own")
	display := cmd.Flags().String("display", "", "what people and the agent read, such as \"Work mail\"")
	tools := cmd.Flags().StringSlice("tool", nil, "only with this tool; repeatable (default: every tool that delivers secrets)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *agent == "" {
			return terminal.UsageError("--principal is required")
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		request := api.AllowSecret{Principal: capabilities.PrincipalID(*agent), Alias: *alias, Display: *display}
		for _, tool := range *tools {
			request.Tools = append(request.Tools, capabilities.ToolID(tool))
		}
		var raw json.RawMessage
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("secrets", args[0], "references"), request, &raw); err != nil {
			return err
		}
		var made api.Reference
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		return remote.Confirmed(cmd, raw, "%s may use %s as %s", *agent, args[0], made.ID)
	}
	return cmd
}

func newSecretRmCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME_OR_REFERENCE",
		Short: "Remove a secret with its references, or one reference",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remote.Change(cmd, http.MethodDelete, remote.Path("secrets", args[0]), nil, "%s is removed", args[0])
		},
	}
}

func newSecretDoneCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "done LANE",
		Short: "Let an agent look again at where it pasted secrets",
		Long: "After an agent pasted a secret, pictures of that page or window, and scripts in it, are refused to it until it has left\n" +
			"or closed it. With this a person says that nothing of the secret is to be seen there any more.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remote.Change(cmd, http.MethodPost, remote.Path("lanes", args[0], "secrets-done"), nil, "lane %s may look again", args[0])
		},
	}
}
