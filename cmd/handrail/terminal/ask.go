package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
)

// Confirm asks a question that y answers; anything else is a refusal that says done.
func Confirm(cmd *cobra.Command, question, done string) error {
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ")
	line, _ := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 64)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return capabilities.Errorf(capabilities.CodeConsentDenied, "%s", done).WithHint("Answer y, or give --yes.")
	}
	return nil
}

// ReadHidden asks at a terminal, without showing what is typed; otherwise it reads
// all of in, most bytes of it at the most.
func ReadHidden(ctx context.Context, in io.Reader, prompt io.Writer, ask string, most int64) (string, error) {
	type read struct {
		text string
		err  error
	}
	got := make(chan read, 1)
	restore := func() {}
	if Interactive(in) {
		fd := int(in.(interface{ Fd() uintptr }).Fd())
		if state, err := term.GetState(fd); err == nil {
			restore = func() { _ = term.Restore(fd, state) } // ctrl-C must not leave a mute terminal
		}
		fmt.Fprint(prompt, ask)
		go func() {
			text, err := term.ReadPassword(fd)
			got <- read{string(text), err}
		}()
	} else {
		go func() {
			text, err := io.ReadAll(io.LimitReader(bufio.NewReader(in), most))
			got <- read{string(text), err}
		}()
	}
	select {
	case <-ctx.Done():
		restore()
		fmt.Fprintln(prompt)
		return "", ctx.Err()
	case r := <-got:
		if Interactive(in) {
			fmt.Fprintln(prompt)
		}
		return r.text, r.err
	}
}
