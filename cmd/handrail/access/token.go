package access

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewTokenCmd makes 'handrail token'.
func NewTokenCmd() *cobra.Command {
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
	face := cmd.Flags().String("face", "all", "what MCP lists to it: all tools, whole: those that are listed on request, too, "+
		"or search: the search for tools and what it found")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch *role {
		case "agent", "viewer", "operator", "admin":
		default:
			return terminal.UsageError("--role is %q; want agent, viewer, operator or admin", *role)
		}
		if *face != "all" && *face != "whole" && *face != "search" {
			return terminal.UsageError("--face is %q; want all, whole or search", *face)
		}
		if *ttl != 0 && *ttl < time.Second {
			return terminal.TooShort("--ttl") // less is no time to the gateway, and no time is no end
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		var raw json.RawMessage
		request := api.CreateToken{
			Principal: capabilities.PrincipalID(args[0]), Role: *role, Lane: capabilities.LaneID(*lane), TTLSeconds: int64(ttl.Seconds()),
			Face: strings.TrimPrefix(*face, "all"),
		}
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("tokens"), request, &raw); err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), raw)
		}
		var made api.MadeToken
		if err := json.Unmarshal(raw, &made); err != nil {
			return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
		}
		// The token alone goes to standard output, so that a script can capture it.
		fmt.Fprintf(cmd.ErrOrStderr(), "token %s for %s (%s); it is not shown again:\n", terminal.Plain(made.ID), terminal.Plain(args[0]), *role)
		fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(made.Secret))
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
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			tokens, done, err := remote.Listed[api.Token](cmd, c, remote.Path("tokens"), "tokens")
			if done || err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			t := terminal.NewTable(out, "TOKEN", "PRINCIPAL", "ROLE", "LANE", "STATE", "CLIENT")
			for _, k := range tokens {
				state := "valid"
				switch {
				case !k.RevokedAt.IsZero():
					state = "revoked"
				case k.ExpiresAt.IsZero():
				case k.ExpiresAt.Before(time.Now()):
					state = "expired"
				default:
					state = "valid until " + k.ExpiresAt.Local().Format(terminal.DayClock)
				}
				t.Row(k.ID, string(k.Principal), k.Role, string(k.Lane), state, k.Client)
			}
			t.Flush()
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
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		id, err := c.ListedID(cmd, "token", args[0], "tokens", "tokens", "token_id")
		if err != nil {
			return err
		}
		var own api.Caller
		if err := c.Get(cmd.Context(), remote.Path("whoami"), &own); err != nil || own.Token != id {
			return c.Change(cmd, http.MethodDelete, remote.Path("tokens", id), nil, "token %s is revoked", id)
		}
		after := "Afterwards a new one has to come from another admin."
		if c.Keeps {
			after = "Afterwards no command on this data directory works, until the gateway starts again and makes a new one."
		}
		if !*yes {
			fmt.Fprintf(cmd.ErrOrStderr(), "This is the token of %s, which this command itself uses. %s\n", terminal.Plain(string(own.Principal)),
				after)
			if err := terminal.Confirm(cmd, "Revoke it?", "nothing was revoked"); err != nil {
				return err
			}
		}
		return c.Change(cmd, http.MethodDelete, remote.Path("tokens", id), nil, "token %s is revoked. %s", id,
			strings.Replace(after, "Afterwards", "Now", 1))
	}
	return cmd
}
