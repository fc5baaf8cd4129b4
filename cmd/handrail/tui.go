package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/handrail-dev/handrail/capabilities"
	api "github.com/handrail-dev/handrail/gateway/client"
)

func newTUICmd() *cobra.Command {
	return &cobra.Command{
		Use:   "tui",
		Short: "Approvals, live calls and the stop switch, in a terminal",
		Long: "Shows what waits for you and what agents do, as it happens, and takes your answers by single keys; also over ssh.\n" +
			"It needs a token of role operator or admin. Press ? for the keys.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, ok := cmd.InOrStdin().(*os.File)
			out, okOut := bare(cmd.OutOrStdout()).(*os.File)
			if !ok || !okOut || !isTerminal(in) || !isTerminal(out) {
				return usageError("handrail tui needs a terminal; 'handrail approvals --watch' prints what waits")
			}
			c, err := newClient(cmd)
			if err != nil {
				return err
			}
			return runTUI(cmd.Context(), c, in, out)
		},
	}
}

// tuiNews is one look at the gateway.
type tuiNews struct {
	approvals []api.Approval
	calls     []api.CallView
	stop      api.StopState
	err       error
}

func lookAround(ctx context.Context, c *client) (n tuiNews) {
	if n.approvals, n.err = c.Approvals(ctx); n.err != nil {
		return n
	}
	if n.calls, n.err = c.Calls(ctx, 50); n.err != nil {
		return n
	}
	n.stop, n.err = c.Stopped(ctx)
	return n
}

// runTUI owns the terminal until the person leaves or ctx ends.
func runTUI(ctx context.Context, c *client, in, out *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := lookAround(ctx, c)
	if first.err != nil {
		return told(first.err)
	}
	old, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(in.Fd()), old) }()
	// A screen of its own, so that what was there comes back; no cursor.
	_, _ = io.WriteString(out, "\x1b[?1049h\x1b[?25l")
	defer func() { _, _ = io.WriteString(out, "\x1b[?25h\x1b[?1049l") }()

	b := &board{address: c.Address()}
	b.news(first.approvals, first.calls, first.stop)
	keys, news, notices := make(chan string), make(chan tuiNews), make(chan string)
	go readKeys(ctx, in, keys) // ends with the process: a read of a terminal can not be called off
	look := make(chan struct{}, 1)
	go followEvents(ctx, c, look, news)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		draw(out, b)
		select {
		case <-ctx.Done():
			return nil
		case name, ok := <-keys:
			if !ok {
				return nil // the terminal is gone
			}
			d := b.key(name)
			if d == nil {
				continue
			}
			if d.what == "quit" {
				return nil
			}
			go func() {
				text := d.do(ctx, c)
				select {
				case notices <- text:
				case <-ctx.Done():
				}
			}()
		case n := <-news:
			if n.err != nil {
				b.lost = publicText(n.err) + "; trying again"
				continue
			}
			b.news(n.approvals, n.calls, n.stop)
		case b.notice = <-notices:
			select {
			case look <- struct{}{}:
			default:
			}
		case <-tick.C: // ages, and the size of the terminal
		}
	}
}

func publicText(err error) string {
	var coded *capabilities.Error
	if errors.As(err, &coded) {
		return coded.PublicMessage()
	}
	return err.Error()
}

// do asks the gateway and says how it went.
func (d *deed) do(ctx context.Context, c *client) string {
	var err error
	done := ""
	if len(d.together) > 0 {
		return d.doTogether(ctx, c)
	}
	switch d.what {
	case "allow":
		done = "allowed " + d.approval.ID + " once"
		_, err = c.Answer(ctx, d.approval.ID, api.Answer{Allow: true, Kind: "call"})
	case "lease":
		done = "allowed " + string(d.approval.Tool) + " for five minutes"
		_, err = c.Answer(ctx, d.approval.ID, api.Answer{Allow: true, Kind: "lease", For: 5 * time.Minute})
	case "family":
		done = "allowed all " + familyOf(string(d.approval.Tool)) + " tools for five minutes"
		_, err = c.Answer(ctx, d.approval.ID, api.Answer{Allow: true, Kind: "lease", Family: true, For: 5 * time.Minute})
	case "deny":
		done = "denied " + d.approval.ID
		_, err = c.Answer(ctx, d.approval.ID, api.Answer{})
	case "stop":
		var h api.Halted
		if h, err = c.Stop(ctx, ""); err == nil {
			done = "everything is stopped: " + count(h.Calls, "call") + " ended, " + count(h.Grants, "grant") + " revoked"
		}
	case "resume":
		done = "resumed: calls may run again"
		_, err = c.Resume(ctx, "")
	}
	if err != nil {
		return "it did not work: " + publicText(err)
	}
	return done
}

// doTogether gives one answer to all questions of a task.
func (d *deed) doTogether(ctx context.Context, c *client) string {
	a, done := api.Answer{}, "denied "
	switch d.what {
	case "allow":
		a, done = api.Answer{Allow: true, Kind: "call"}, "allowed once: "
	case "lease", "family":
		a, done = api.Answer{Allow: true, Kind: "lease", Family: d.what == "family", For: 5 * time.Minute}, "allowed for five minutes: "
	}
	answered, err := c.AnswerTogether(ctx, d.together, a)
	done += count(len(answered), "question")
	if err != nil {
		return done + "; one was not answered: " + publicText(err)
	}
	return done
}

// followEvents looks around after every event, and again when the gateway comes
// back.
func followEvents(ctx context.Context, c *client, look chan struct{}, news chan<- tuiNews) {
	soon := func() error {
		select {
		case look <- struct{}{}:
		default: // one is due already, and will see this, too
		}
		return nil
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-look:
			}
			n := lookAround(ctx, c)
			select {
			case news <- n:
			case <-ctx.Done():
				return
			}
			select { // many events in a row are one look
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
	}()
	for ctx.Err() == nil {
		_ = c.Events(ctx, 0, soon, func(api.Event) error { return soon() }) // whatever ended it, the next look says what is wrong
		_ = soon()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// draw writes one frame over the one before, in one write.
func draw(out *os.File, b *board) {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var buf bytes.Buffer
	buf.WriteString("\x1b[H")
	for i, line := range b.frame(time.Now(), width, height) {
		if i > 0 {
			buf.WriteString("\r\n")
		}
		// The selected line is shown inverse as well; its mark says it, too.
		if strings.HasPrefix(line, ">") {
			line = "\x1b[7m" + line + "\x1b[0m"
		}
		buf.WriteString(line + "\x1b[K")
	}
	buf.WriteString("\x1b[J")
	_, _ = out.Write(buf.Bytes())
}

// readKeys gives the names of keys until the terminal ends.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	defer close(keys)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil {
			return
		}
		for _, name := range keyNames(buf[:n]) {
			select {
			case keys <- name:
			case <-ctx.Done():
				return
			}
		}
	}
}

// keyNames reads what a terminal sends: ASCII, and the escape sequences of the
// arrows (ECMA-48, in both modes of the cursor keys). Others are passed over.
func keyNames(data []byte) []string {
	var names []string
	for len(data) > 0 {
		switch c := data[0]; {
		case c == 0x1b && len(data) >= 3 && (data[1] == '[' || data[1] == 'O'):
			end := 2
			for end < len(data)-1 && (data[end] < 0x40 || data[end] > 0x7e) {
				end++
			}
			switch data[end] {
			case 'A':
				names = append(names, "up")
			case 'B':
				names = append(names, "down")
			}
			data = data[end+1:]
			continue
		case c == 0x1b:
			names = append(names, "esc")
		case c == 3 || c == 4:
			names = append(names, "ctrl-c")
		case c == '\r' || c == '\n':
			names = append(names, "enter")
		case c == '\t':
			names = append(names, "tab")
		case c > 0x20 && c < 0x7f:
			names = append(names, string(c))
		}
		data = data[1:]
	}
	return names
}
