package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

// joinFunc joins the site of a paste and keeps the identity below data. It waits
// for the admin's decision; say tells the person how far it is.
type joinFunc func(ctx context.Context, cmd *cobra.Command, data dataDir, paste pairing.Paste, say func(string)) (capabilities.NodeID, error)

// newJoinCmd makes `handrail node join`. The paste is a secret, so it comes from
// standard input or a prompt and never from the command line, which every
// process of the machine can read.
func newJoinCmd(join joinFunc) *cobra.Command {
	return &cobra.Command{
		Use:   "join",
		Short: "Pair this device with a gateway, with the paste from 'handrail pair'",
		Long: "Asks for the paste, or reads it from standard input, proves it to the gateway and waits until the admin\n" +
			"confirms. Compare the key it shows with what the admin sees. Then 'handrail node' runs the node.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := dataDirOf(cmd)
			if err != nil {
				return err
			}
			text, err := readPaste(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			paste, err := pairing.ParsePaste(text)
			if err != nil {
				return err
			}
			say := func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), plain(what)) }
			node, err := join(cmd.Context(), cmd, data, paste, say)
			if err != nil {
				return err
			}
			if commonOf(cmd).json {
				return printJSON(cmd.OutOrStdout(), map[string]any{"event": "approved", "node_id": node, "site_id": paste.Site})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "This device is node %s of site %s. Run 'handrail node' to start it.\n", node, paste.Site)
			return nil
		},
	}
}

// readPaste asks at a terminal, without showing what is typed; otherwise it
// reads all of in.
func readPaste(ctx context.Context, in io.Reader, prompt io.Writer) (string, error) {
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	restore := func() {}
	if isTerminal(in) {
		fd := int(in.(interface{ Fd() uintptr }).Fd())
		if state, err := term.GetState(fd); err == nil {
			restore = func() { _ = term.Restore(fd, state) } // ctrl-C must not leave a mute terminal
		}
		fmt.Fprint(prompt, "Paste from 'handrail pair': ")
		go func() {
			text, err := term.ReadPassword(fd)
			got <- read{string(text), err}
		}()
	} else {
		go func() {
			text, err := io.ReadAll(io.LimitReader(bufio.NewReader(in), 4*pairing.MaxPaste))
			got <- read{string(text), err}
		}()
	}
	select {
	case <-ctx.Done():
		restore()
		fmt.Fprintln(prompt)
		return "", ctx.Err()
	case r := <-got:
		if isTerminal(in) {
			fmt.Fprintln(prompt)
		}
		if r.err == nil && strings.TrimSpace(r.text) == "" {
			return "", capabilities.Errorf(capabilities.CodePasteInvalid, "no paste was given").
				WithHint("Give the line that 'handrail pair' printed, on standard input or at the prompt.")
		}
		return r.text, r.err
	}
}
