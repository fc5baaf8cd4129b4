package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// stateWord is why a provider's calls cannot be carried out, in a word.
func stateWord(r capabilities.Reason) string {
	if r == capabilities.ReasonNeedsSignIn {
		return "needs sign-in"
	}
	if r == capabilities.ReasonBackendMissing {
		return "lacks a tool"
	}
	return terminal.Plain(string(r))
}

func newSignInCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sign-in NAME",
		Short: "Print the link where a person signs in for a provider",
		Long: "Prints a link into the console, to the form that signs in at the authorization server of the provider's MCP server.\n" +
			"A person opens it in their browser: the sign-in ends in the session that began it, so no command finishes it.\n" +
			"The token is then the stored secret sign-in/NAME. A provider that was added with --env Authorization=sign-in/NAME,\n" +
			"before or after, gets it when it is approved.",
		Args: cobra.ExactArgs(1),
	}
	client := cmd.Flags().String("client-id", "", "client ID that you registered there, if the gateway cannot register itself")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		var p api.Provider
		if err := c.Ask(cmd.Context(), http.MethodGet, remote.Path("providers", args[0]), nil, &p); err != nil {
			return err
		}
		if p.Kind != "mcp" || p.URL == "" {
			return capabilities.Errorf(capabilities.CodeNotSupported, "%s is no MCP server at a URL, so there is nothing to sign in to", p.Name)
		}
		q := url.Values{"sign_in": {p.Name}}
		if !slices.ContainsFunc(p.Env,
			func(e string) bool { _, secret, _ := strings.Cut(e, "="); return strings.HasPrefix(secret, "sign-in/") }) {
			fmt.Fprintf(cmd.ErrOrStderr(), "The provider %s gets no sign-in's token: remove it, and add it with --env Authorization=sign-in/%s.\n",
				terminal.Plain(p.Name), terminal.Plain(p.Name))
		}
		if *client != "" {
			q.Set("client", *client)
		}
		link := c.Address() + "/console/providers?" + q.Encode() + "#sign-in"
		if terminal.FlagsOf(cmd).JSON {
			text, err := json.Marshal(map[string]string{"link": link})
			if err != nil {
				return err
			}
			return terminal.PrintJSON(cmd.OutOrStdout(), json.RawMessage(text))
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n", terminal.Plain(link))
		fmt.Fprintln(cmd.ErrOrStderr(), "Open it in a browser that is signed in to the console as an admin.")
		return nil
	}
	return cmd
}

func newSignOutCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "sign-out NAME",
		Short: "End a sign-in: its tokens are revoked and forgotten",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			return c.Change(cmd, http.MethodDelete, remote.Path("sign-ins", args[0]), nil, "the sign-in %s has ended", args[0])
		},
	}
}
