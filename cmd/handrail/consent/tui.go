package consent

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/board"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// NewTUICmd makes 'handrail tui'.
func NewTUICmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tui",
		Short: "Approvals, live calls and the stop switch, in a terminal",
		Long: "Shows what waits for you and what agents do, as it happens, and takes your answers by single keys; also over ssh.\n" +
			"It needs a token of role operator or admin. Press ? for the keys.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, ok := cmd.InOrStdin().(*os.File)
			out, okOut := terminal.Bare(cmd.OutOrStdout()).(*os.File)
			if !ok || !okOut || !terminal.Interactive(in) || !terminal.Interactive(out) {
				return terminal.UsageError("handrail tui needs a terminal; 'handrail approvals --watch' prints what waits")
			}
			c, err := remote.Find(cmd)
			if err != nil {
				return err
			}
			return remote.Told(board.Run(cmd.Context(), c, board.Words{
				Told:  func(q *api.Told) []string { return toldLines(q, false) },
				Form:  formLines,
				Waits: waits, Lending: lending, Ago: terminal.Ago, Clock: terminal.Clock, Family: familyOf, Count: terminal.Count[int],
			}, in, out))
		},
	}
}
