package storage

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/store"
)

// here is how a move names the file in the data directory.
const here = "file"

// NewStoreCmd returns the commands about where a site is kept; logOf returns the log of raising it
// to this program's schema.
func NewStoreCmd(logOf func(*cobra.Command) *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{Use: "store", Short: "Check, copy and move what keeps the site: a file, or a PostgreSQL database"}
	cmd.AddCommand(newCheckCmd(logOf), newCopyCmd(logOf), newMigrateCmd(logOf))
	return cmd
}

// PlaceOf reads a store's address as a flag names it. A password in it is refused.
func PlaceOf(flag, text string) (store.URL, error) {
	u := store.URL(text)
	switch {
	case u == "":
		return "", nil
	case u.Password():
		return "", terminal.UsageHint("Put it into a file that only this account can read, and name that with ?passfile=. Its line is "+
			"HOST:PORT:DATABASE:USER:PASSWORD.", "every account of this machine can read a password in --%s", flag)
	}
	return u, u.Check()
}

func newCheckCmd(logOf func(*cobra.Command) *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Open the store of a stopped gateway, bring it up to date and verify its ledger",
		Args:  cobra.NoArgs,
	}
	at := cmd.Flags().String("store", "", "PostgreSQL database to look at (default: where the data directory says it lies)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		u, err := PlaceOf("store", *at)
		if err != nil {
			return err
		}
		stop := terminal.ShowWaiting(cmd, "verifying")
		state, err := gateway.CheckStore(cmd.Context(), data.Gateway(), u, logOf(cmd))
		stop()
		if err != nil {
			return err
		}
		if terminal.FlagsOf(cmd).JSON {
			return terminal.PrintJSON(cmd.OutOrStdout(), state)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "site %s is kept in %s\nThe ledger verifies: %s, to entry %d\n", state.Site,
			terminal.Plain(state.Place), terminal.Count(state.Ledger.Packets, "packet"), state.Ledger.Last)
		return err
	}
	return cmd
}

func newCopyCmd(logOf func(*cobra.Command) *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "copy TO",
		Short: "Copy the store of a stopped gateway to a new file or to a PostgreSQL database",
		Long: "The site goes on where it is. Two gateways on two copies of one site are two sites that look like one: the copy is for\n" +
			"looking at and for trying.",
		Example: "  handrail store copy look.db\n  handrail store copy postgres://handrail@db.example/handrail?schema=look",
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !strings.Contains(args[0], "://") {
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			return copies(cmd, "", file, false, logOf)
		}
		u, err := PlaceOf("TO", args[0])
		if err != nil {
			return err
		}
		return copies(cmd, u, "", false, logOf)
	}
	return cmd
}

func newMigrateCmd(logOf func(*cobra.Command) *slog.Logger) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate TO",
		Short: "Move the site of a stopped gateway into a PostgreSQL database, or with '" + here + "' back into a file",
		Long: "Copies the store, verifies both ledgers, and has the data directory say where the site lies from then on. Devices, people\n" +
			"and tokens stay. A file that was moved stays as store.db.moved; a database that was left is opened by no gateway again.",
		Example: "  handrail store migrate postgres://handrail@db.example/handrail\n  handrail store migrate " + here,
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		if args[0] == here {
			return copies(cmd, "", data.StorePath(), true, logOf)
		}
		u, err := PlaceOf("TO", args[0])
		if err != nil {
			return err
		}
		return copies(cmd, u, "", true, logOf)
	}
	return cmd
}

func copies(cmd *cobra.Command, u store.URL, file string, move bool, logOf func(*cobra.Command) *slog.Logger) error {
	data, err := datadir.Of(cmd)
	if err != nil {
		return err
	}
	stop := terminal.ShowWaiting(cmd, "copying")
	done, err := gateway.CopyStore(cmd.Context(), data.Gateway(), u, file, move, logOf(cmd))
	stop()
	if err != nil {
		return err
	}
	if terminal.FlagsOf(cmd).JSON {
		return terminal.PrintJSON(cmd.OutOrStdout(), done)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "site %s: %d rows of %d tables are in %s now, read again and the same\nIts ledger verifies: %s, to entry %d\n",
		done.Site, done.Rows, done.Tables, terminal.Plain(done.To), terminal.Count(done.Ledger.Packets, "packet"), done.Ledger.Last)
	switch {
	case !move:
		_, err = fmt.Fprintln(out, "The site goes on where it was.")
	case u != "":
		_, err = fmt.Fprintf(out, "The file of before is %s.moved; it holds everything, so remove it once the site runs.\nStart it: %s\n",
			terminal.Plain(data.StorePath()), data.Command("gateway"))
	default:
		_, err = fmt.Fprintf(out, "The database of before holds everything, so drop its schema once the site runs.\nStart it: %s\n",
			data.Command("gateway"))
	}
	return err
}
