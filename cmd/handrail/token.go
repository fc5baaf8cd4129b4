package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

func newTokenCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens callers use",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreateCmd(), newTokenListCmd(), newTokenRevokeCmd())
	return cmd
}

func newTokenCreateCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "create PRINCIPAL",
		Short: "Create a token for a caller; it is shown once",
		Long: "Creates a token for the principal and prints it. The gateway keeps only its hash, so it cannot be shown again.\n" +
			"Roles: agent calls tools; viewer only looks; operator also manages nodes and lanes and reads the ledger; admin may do everything.",
		Args: cobra.ExactArgs(1),
	}
	role := cmd.Flags().String("role", "agent", "agent, viewer, operator or admin")
	lane := cmd.Flags().String("lane", "", "lane its calls use when they name none")
	ttl := cmd.Flags().Duration("ttl", 0, "how long it is valid, such as 24h (default: until revoked)")
	face := cmd.Flags().String("face", "all", "what MCP lists to it: all tools, or search: the search for tools and what it found")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch *role {
		case "agent", "viewer", "operator", "admin":
		default:
			return usageError("--role is %q; want agent, viewer, operator or admin", *role)
		}
		if *face != "all" && *face != "search" {
			return usageError("--face is %q; want all or search", *face)
		}
		if *ttl != 0 && *ttl < time.Second {
			return errShort("--ttl") // less is no time to the gateway, and no time is no end
		}
		c, err := newClient(cmd)
		if err != nil {
			return err
		}
		var raw json.RawMessage
		request := body("principal", args[0], "role", *role, "lane", *lane, "ttl_s", int(ttl.Seconds()), "face", strings.TrimPrefix(*face, "all"))
		if err := c.do(cmd.Context(), http.MethodPost, path("tokens"), request, &raw); err != nil {
			return err
		}
		if commonOf(cmd).json {
			return printJSON(cmd.OutOrStdout(), raw)
		}
		var made api.MadeToken
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		// The token alone goes to standard output, so that a script can capture it.
		fmt.Fprintf(cmd.ErrOrStderr(), "token %s for %s (%s); it is not shown again:\n", plain(made.ID), plain(args[0]), *role)
		fmt.Fprintln(cmd.OutOrStdout(), plain(made.Secret))
		return nil
	}
	return cmd
}

func newTokenListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			tokens, done, err := listed[api.Token](cmd, c, path("tokens"), "tokens")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			t := newTable(out, "TOKEN", "PRINCIPAL", "ROLE", "LANE", "STATE")
			for _, k := range tokens {
				state := "valid"
				switch {
				case !k.RevokedAt.IsZero():
					state = "revoked"
				case k.ExpiresAt.IsZero():
				case k.ExpiresAt.Before(time.Now()):
					state = "expired"
				default:
					state = "valid until " + k.ExpiresAt.Local().Format(dayClock)
				}
				t.row(k.ID, string(k.Principal), k.Role, string(k.Lane), state)
			}
			t.flush()
			return nil
		},
	}
}

func newTokenRevokeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke TOKEN_ID",
		Short: "Make a token worthless at once",
		Long:  "Makes a token worthless at once. It asks first where the token is the one that this command itself uses.",
		Args:  cobra.ExactArgs(1),
	}
	yes := cmd.Flags().Bool("yes", false, "do not ask, although it is this command's own token")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := newClient(cmd)
		if err != nil {
			return err
		}
		id, err := c.listedID(cmd, "token", args[0], "tokens", "tokens", "token_id")
		if err != nil {
			return err
		}
		var own api.Caller
		if err := c.get(cmd.Context(), path("whoami"), &own); err != nil || own.Token != id {
			return c.change(cmd, http.MethodDelete, path("tokens", id), nil, "token %s is revoked", id)
		}
		after := "Afterwards a new one has to come from another admin."
		if c.keeps {
			after = "Afterwards no command on this data directory works, until the gateway starts again and makes a new one."
		}
		if !*yes {
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the token of %s, which this command itself uses. %s\n", plain(string(own.Principal)), after)
			if err := confirm(cmd, "Revoke it?", "nothing was revoked"); err != nil {
				return err
			}
		}
		return c.change(cmd, http.MethodDelete, path("tokens", id), nil, "token %s is revoked. %s", id, strings.Replace(after, "Afterwards", "Now", 1))
	}
	return cmd
}

// confirm asks a question that y answers; anything else is a refusal that says done.
func confirm(cmd *cobra.Command, question, done string) error {
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	line, _ := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 64)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "%s", done).WithHint("Answer y, or give --yes.")
	}
	return nil
}
