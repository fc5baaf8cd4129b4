package access

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewUserCmd makes 'handrail user'.
func NewUserCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "user",
		Short: "Let people sign in to the console with a password or a passkey",
		Long: "A user signs in at /console/ with a password; in the console they add passkeys of their own. The link\n" +
			"that 'handrail login' prints works without any.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUserAddCmd(), newUserLinkCmd(), newUserListCmd(), newUserPasswordCmd(), newUserRoleCmd(), newUserRemoveCmd(),
		newUserSignOutCmd())
	return cmd
}

// readPassword asks for a password twice at a terminal; piped, it is what comes without
// the end of its line.
func readPassword(cmd *cobra.Command) (string, error) {
	in, prompt := cmd.InOrStdin(), cmd.ErrOrStderr()
	text, err := terminal.ReadHidden(cmd.Context(), in, prompt, "Password, 12 characters or more: ", 1024)
	if err != nil {
		return "", err
	}
	if !terminal.Interactive(in) {
		return strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"), nil
	}
	again, err := terminal.ReadHidden(cmd.Context(), in, prompt, "Once more: ", 1024)
	if err == nil && again != text {
		err = terminal.UsageError("the two are not the same")
	}
	return text, err
}

func newUserAddCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user; the password is asked for, or read from standard input",
		Long: "Adds a user with a password, or, with --link, one who comes in by a link that is good once, and chooses a\n" +
			"passkey or a password there.",
		Args: cobra.ExactArgs(1),
	}
	role := cmd.Flags().String("role", "operator", "viewer, operator or admin")
	link := cmd.Flags().Bool("link", false, "give no password; print a link that signs the user in once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch *role {
		case "viewer", "operator", "admin":
		default:
			return terminal.UsageError("--role is %q; want viewer, operator or admin", *role)
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		user := api.AddUser{Principal: capabilities.PrincipalID(args[0]), Role: *role}
		if *link {
			if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("users"), user, nil); err != nil {
				return err
			}
			return printWelcome(cmd, c, args[0])
		}
		password, err := readPassword(cmd)
		if err != nil {
			return err
		}
		var raw json.RawMessage
		user.Password = &password
		if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("users"), user, &raw); err != nil {
			return err
		}
		return remote.Confirmed(cmd, raw, "%s signs in at %s/console/", args[0], c.Base)
	}
	return cmd
}

func newUserLinkCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "link NAME",
		Short: "Print a link that signs a user in once, such as one who lost their passkey",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			return printWelcome(cmd, c, args[0])
		},
	}
}

// printWelcome makes and prints the link by which a user comes in.
func printWelcome(cmd *cobra.Command, c *remote.Gateway, name string) error {
	base, err := fromElsewhere(cmd, c)
	if err != nil {
		base = datadir.ForBrowser(c.Base.String()) // this machine's own browser can use it
	}
	var made api.SignInLink
	if err := c.Ask(cmd.Context(), http.MethodPost, remote.Path("users", name, "link"), nil, &made); err != nil {
		return err
	}
	link := cmp.Or(made.Public, base) + "/console/login#" + made.Code
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"url": link, "expires_at": made.Expires})
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The one who opens this first is %s. It is good once, until %s or until the gateway starts anew:\n",
		terminal.Plain(name), made.Expires.Local().Format(terminal.DayClock))
	_, err = fmt.Fprintln(cmd.OutOrStdout(), terminal.Plain(link))
	return err
}

func newUserListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the users, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			users, done, err := remote.Listed[api.User](cmd, c, remote.Path("users"), "users")
			if done || err != nil {
				return err
			}
			if len(users) == 0 {
				fmt.Fprintln(cmd.OutOrStdout(), "No users yet.")
				return nil
			}
			t := terminal.NewTable(cmd.OutOrStdout(), "USER", "ROLE", "PASSWORD", "PASSKEYS", "SINCE")
			for _, u := range users {
				password := "no"
				if u.Password {
					password = "yes"
				}
				t.Row(string(u.Principal), u.Role, password, fmt.Sprint(len(u.Passkeys)), u.CreatedAt.Local().Format(terminal.DayClock))
			}
			t.Flush()
			return nil
		},
	}
}

func newUserPasswordCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "password NAME",
		Short: "Give a user another password; their sessions end",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			password, err := readPassword(cmd)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Ask(cmd.Context(), http.MethodPut, remote.Path("users", args[0], "password"), api.SetPassword{Password: password},
				&raw); err != nil {
				return err
			}
			return remote.Confirmed(cmd, raw, "%s has another password", args[0])
		},
	}
}

func newUserRoleCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "role NAME ROLE",
		Short: "Give a user another role: viewer, operator or admin",
		Long:  "Sessions of theirs and tokens under their name that may do more than the new role end at once.",
		Args:  cobra.ExactArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return []string{"viewer", "operator", "admin"}, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return remote.Change(cmd, http.MethodPut, remote.Path("users", args[0], "role"), api.SetRole{Role: args[1]}, "%s is %s now",
				args[0], args[1])
		},
	}
}

func newUserRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user with their password, passkeys, sessions, tokens and grants",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.Ask(cmd.Context(), http.MethodDelete, remote.Path("users", args[0]), nil, &raw); err != nil {
				return err
			}
			var gone api.RemovedUser
			if err := json.Unmarshal(raw, &gone); err != nil {
				return err
			}
			said := args[0] + " can no longer sign in"
			if gone.Ended > 0 {
				said += fmt.Sprintf("; %s of theirs ended", terminal.Count(gone.Ended, "token"))
			}
			if len(gone.Made) > 0 {
				said += "; tokens that they made for others go on: " + strings.Join(gone.Made, ", ")
			}
			return remote.Confirmed(cmd, raw, "%s", said)
		},
	}
}

func newUserSignOutCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sign-out NAME",
		Short: "End all of a user's sessions of the console",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return remote.Change(cmd, http.MethodDelete, remote.Path("users", args[0], "sessions"), nil, "%s is signed out everywhere", args[0])
		},
	}
}
