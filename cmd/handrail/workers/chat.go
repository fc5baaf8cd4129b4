package workers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
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
	waitFlag(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return chat(cmd, o) }
	return cmd
}

func chat(cmd *cobra.Command, o runOptions) error {
	ctx, interrupts, end := untilInterrupted(cmd.Context())
	defer end()
	cmd.SetContext(ctx)
	in := readLines(ctx, cmd.InOrStdin())
	at := terminal.Interactive(cmd.InOrStdin())
	o.folds = at && !terminal.FlagsOf(cmd).JSON
	prompt := func(text string) {
		if at {
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
	prompt("Write what you want done. Ctrl-C ends what runs, /show unfolds the last calls, /exit ends.\n")
	var last worker.Outcome
	for {
		turn, over := interrupts(ctx)
		prompt("> ")
		line, err := next(turn)
		if over(); errors.Is(err, io.EOF) {
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
		case "/show":
			unfold(cmd.OutOrStdout(), last.Calls)
			continue
		}
		turn, over = interrupts(ctx)
		last, err = e.Run(turn, line)
		stopped := turn.Err() != nil && ctx.Err() == nil
		over()
		spoken := e.speech.ends()
		if err == nil {
			if err = showOutcome(cmd, last, spoken); err != nil {
				return err
			}
			if last.Ask != "" && !terminal.FlagsOf(cmd).JSON {
				err = unclear(last)
			}
		}
		if ctx.Err() != nil {
			return err
		}
		if stopped {
			err = errStopped
		}
		if err != nil { // the conversation goes on
			fmt.Fprintln(cmd.ErrOrStderr(), "handrail: "+capabilities.Printable(err.Error()))
		}
	}
}

var errStopped = errors.New("you ended it; what it did so far is done")

// untilInterrupted returns the context of a conversation, which outlives the interrupts of its
// turns, a function that makes the context of one of them, and one that ends it.
func untilInterrupted(parent context.Context) (context.Context, func(context.Context) (context.Context, context.CancelFunc), func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			cancel(context.Canceled)
		case <-ctx.Done():
		}
	}()
	end := func() {
		signal.Stop(signals)
		cancel(nil)
		<-done
	}
	turn := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return signal.NotifyContext(ctx, os.Interrupt)
	}
	return ctx, turn, end
}

// maxUnfolded is how much of a result is shown, in bytes.
const maxUnfolded = 16 << 10

// unfold writes the calls of a turn with all their arguments and what they returned.
func unfold(w io.Writer, calls []worker.Called) {
	if len(calls) == 0 {
		fmt.Fprintln(w, "The last turn made no calls.")
	}
	for _, c := range calls {
		fmt.Fprintf(w, "%s %s: %s", terminal.Plain(string(c.Tool)), terminal.Plain(string(c.Call)), terminal.Plain(c.Status))
		if c.Why != "" {
			fmt.Fprintf(w, ", %s", terminal.Plain(c.Why))
		}
		fmt.Fprintf(w, "\n  effect: %s", terminal.OrDash(string(c.Effect)))
		if c.Evidence != "" {
			fmt.Fprintf(w, " (%s)", terminal.Plain(c.Evidence))
		}
		fmt.Fprintln(w)
		for _, part := range []struct {
			name string
			v    any
		}{{"arguments", c.Args}, {"result", c.Result.Output}} {
			text, err := json.MarshalIndent(part.v, "  ", "  ")
			if err != nil || string(text) == "null" {
				continue
			}
			fmt.Fprintf(w, "  %s: %s\n", part.name, terminal.PlainBlock(capabilities.Clip(string(text), maxUnfolded)))
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
