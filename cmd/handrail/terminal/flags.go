package terminal

import "github.com/spf13/cobra"

// AsksJSON reports whether the arguments have --json: where one before it cannot be
// read, nothing after it is.
func AsksJSON(args []string) bool {
	for _, a := range args {
		if a == "--json" || a == "--json=true" {
			return true
		}
		if a == "--" {
			break
		}
	}
	return false
}

// Flags is what every command shares.
type Flags struct {
	Data string // as given; "" means the default
	JSON bool
}

// FlagsOf returns what cmd was given of them.
func FlagsOf(cmd *cobra.Command) Flags {
	flags := cmd.Flags()
	data, _ := flags.GetString("data")
	asJSON, _ := flags.GetBool("json")
	return Flags{Data: data, JSON: asJSON}
}
