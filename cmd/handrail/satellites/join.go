package satellites

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/datadir"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/satellite"
)

// folderOf is where the identities of this machine's satellites are.
func folderOf(d datadir.Dir) string { return filepath.Join(string(d), "satellites") }

// NewJoinCmd returns the command that joins a gateway as a satellite.
func NewJoinCmd(host Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "join NAME",
		Short: "Join a gateway as a satellite, with the code from 'handrail satellite add'",
		Long: "Asks for the code, or reads it from standard input, proves it to the gateway and waits until the admin confirms.\n" +
			"Compare the key it shows with what the admin sees. Then 'handrail satellite run' runs it.",
		Args: cobra.ExactArgs(1),
	}
	far := host.Bus(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := datadir.Of(cmd)
		if err != nil {
			return err
		}
		text, err := terminal.ReadHidden(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), "Code from 'handrail satellite add': ", 4096)
		if err != nil {
			return err
		}
		if err := data.Make(folderOf(data)); err != nil {
			return err
		}
		o := satellite.JoinOptions{Agent: "handrail " + host.Version, Progress: func(id, key, state string) {
			switch {
			case terminal.FlagsOf(cmd).JSON:
				_ = terminal.PrintJSON(cmd.OutOrStdout(), map[string]any{"event": state, "satellite_id": id, "key": key})
			case state == "pending":
				fmt.Fprintf(cmd.OutOrStdout(), "Code accepted. Waiting for the admin to let this satellite in.\n  satellite  %s\n  key        %s\n",
					terminal.Plain(id), terminal.Plain(key))
			}
		}}
		o.Away = func(err error) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s Trying again for two minutes.\n", terminal.Plain(capabilities.AsError(err).PublicMessage()))
		}
		if o.TLS, err = far(); err != nil {
			return err
		}
		id, err := satellite.Join(cmd.Context(), text, folderOf(data), args[0], o)
		if err != nil || terminal.FlagsOf(cmd).JSON {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "This is satellite %s of site %s. Run 'handrail satellite run %s' to start it.\n",
			terminal.Plain(id.Satellite), terminal.Plain(string(id.Site)), terminal.Plain(args[0]))
		return nil
	}
	return cmd
}
