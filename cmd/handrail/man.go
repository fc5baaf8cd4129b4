package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// newManCmd makes the command by which packages get their manual pages. It is not for people.
func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands into a folder",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writeManuals(cmd.Root(), args[0])
		},
	}
}

func writeManuals(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || cmd.Name() == "help" {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manual(cmd)), 0o644); err != nil {
		return err
	}
	for _, sub := range cmd.Commands() {
		if err := writeManuals(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// roff returns text as a line of a manual page: nothing in it is a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(terminal.Plain(text))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// manual returns the page of a command, in the language of man(7).
func manual(cmd *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q \"Handrail\"\n", roff(strings.ToUpper(name)), roff("handrail "+programVersion()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(name), roff(cmd.Short), roff(cmd.UseLine()))
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	flags := func(title string, set *pflag.FlagSet) {
		if !set.HasAvailableFlags() {
			return
		}
		b.WriteString(".SH " + title + "\n")
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			word, usage := pflag.UnquoteUsage(f)
			head := "--" + f.Name
			if f.Shorthand != "" {
				head = "-" + f.Shorthand + ", " + head
			}
			if word != "" {
				head += " " + word
			}
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(head), roff(usage))
		})
	}
	flags("OPTIONS", cmd.NonInheritedFlags())
	flags("OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n.nf\n")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			b.WriteString(roff(line) + "\n")
		}
		b.WriteString(".fi\n")
	}
	var related []string
	if cmd.HasParent() {
		related = append(related, strings.ReplaceAll(cmd.Parent().CommandPath(), " ", "-"))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			related = append(related, name+"-"+sub.Name())
		}
	}
	if len(related) > 0 {
		b.WriteString(".SH SEE ALSO\n")
		for i, one := range related {
			end := ","
			if i == len(related)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(one), end)
		}
	}
	return b.String()
}
