package workers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// maxMessage bounds what a person says at once, in bytes.
const maxMessage = 64 << 10

// NewChatCmd returns the command that talks with a worker.
func NewChatCmd() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a worker that calls tools as an agent does",
		Long: "Reads one message a line, and does what it wants as 'handrail run' does; it ends with /exit or the end of the input. It " +
			"remembers\n" +
			"facts that you ask it to ('remember that …') in your words, and asks first where they are private.",
		Example:           "  handrail chat --offline",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	workerFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return chat(cmd, o) }
	return cmd
}

func chat(cmd *cobra.Command, o runOptions) error {
	in := readLines(cmd.Context(), cmd.InOrStdin())
	prompt := func(text string) {
		if terminal.Interactive(cmd.InOrStdin()) {
			fmt.Fprint(cmd.ErrOrStderr(), text)
		}
	}
	next := func(ctx context.Context) (string, error) {
		select {
		case line, ok := <-in:
			if !ok {
				return "", io.EOF
			}
			return line.text, line.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	e, err := newWorker(cmd, o, func(ctx context.Context, question string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), question)
		line, err := next(ctx)
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		return line, err
	})
	if err != nil {
		return err
	}
	defer e.close()
	if terminal.Interactive(cmd.InOrStdin()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "Write what you want done. /exit ends.")
	}
	for {
		prompt("> ")
		line, err := next(cmd.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch line = strings.TrimSpace(line); line {
		case "":
			continue
		case "/exit", "/quit":
			return nil
		}
		out, err := e.Run(cmd.Context(), line)
		spoken := e.speech.ends()
		if err == nil {
			if err = showOutcome(cmd, out, spoken); err != nil {
				return err
			}
			if out.Ask != "" && !terminal.FlagsOf(cmd).JSON {
				err = unclear(out)
			}
		}
		if cmd.Context().Err() != nil {
			return err
		}
		if err != nil { // the conversation goes on
			fmt.Fprintln(cmd.ErrOrStderr(), "handrail: "+capabilities.Printable(err.Error()))
		}
	}
}

type inputLine struct {
	text string
	err  error
}

// readLines reads lines until the end or until ctx ends; then its channel is closed.
func readLines(ctx context.Context, r io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	go func() {
		defer close(lines)
		scan := bufio.NewScanner(r)
		scan.Buffer(nil, maxMessage)
		for scan.Scan() {
			select {
			case lines <- inputLine{text: scan.Text()}:
			case <-ctx.Done():
				return
			}
		}
		if err := scan.Err(); err != nil {
			if errors.Is(err, bufio.ErrTooLong) {
				err = capabilities.Errorf(capabilities.CodeBodyTooLarge, "a message has at most %d bytes", maxMessage)
			}
			select {
			case lines <- inputLine{err: err}:
			case <-ctx.Done():
			}
		}
	}()
	return lines
}
