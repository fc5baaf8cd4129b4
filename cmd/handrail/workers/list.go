package workers

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// maxListed is how many jobs or turns the gateway lists at once.
const maxListed = 500

// listsNewest has cmd list the newest of what ask returns, as many as its flag --limit says.
// none is the line for an empty list.
func listsNewest[T any](cmd *cobra.Command, none string, ask func(*remote.Gateway, context.Context, int) ([]T, error),
	show func(io.Writer, []T) error) {
	limit := cmd.Flags().Int("limit", 50, fmt.Sprintf("how many at most, up to %d", maxListed))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 || *limit > maxListed {
			return terminal.UsageError("--limit must be from 1 to %d", maxListed)
		}
		c, err := remote.Find(cmd)
		if err != nil {
			return err
		}
		list, err := ask(c, cmd.Context(), *limit)
		if err != nil {
			return c.Told(err)
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintItems(cmd.OutOrStdout(), list)
		}
		if len(list) == 0 {
			fmt.Fprintln(cmd.OutOrStdout(), none)
			return nil
		}
		return show(cmd.OutOrStdout(), list)
	}
}
