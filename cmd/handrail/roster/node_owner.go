package roster

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// newNodeOwnerCmd says whose device a node is: that person needs nobody else's word for
// what they ask of it, once they are in the console.
func newNodeOwnerCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "owner NODE [NAME]",
		Short: "Say whose device a node is",
		Long: "The owner of a device is asked nobody else's word for what they do with it themselves in the console, freshly\n" +
			"signed in or with a passkey, and answers there what they asked on the command line. It takes an admin to say so.",
		Example:           "  handrail node owner laptop ann\n  handrail node owner laptop --nobody",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: remote.CompleteNodes(1),
	}
	nobody := cmd.Flags().Bool("nobody", false, "it is nobody's: a second person answers")
	change := remote.WithNode(func(cmd *cobra.Command, c *remote.Gateway, id string, args []string) error {
		if *nobody {
			none := capabilities.PrincipalID("")
			return c.Change(cmd, http.MethodPatch, remote.Path("nodes", id), api.NodeChange{Owner: &none}, "node %s is nobody's now", id)
		}
		owner := capabilities.PrincipalID(args[1])
		return c.Change(cmd, http.MethodPatch, remote.Path("nodes", id), api.NodeChange{Owner: &owner}, "node %s is %s's now", id, args[1])
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if (len(args) == 2) == *nobody {
			return terminal.UsageError("name the owner, or say --nobody")
		}
		return change(cmd, args)
	}
	return cmd
}
