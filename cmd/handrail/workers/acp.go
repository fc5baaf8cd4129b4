package workers

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/acp"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/consent"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/client"
)

// NewACPCmd returns the command by which an editor talks with a worker.
func NewACPCmd(version string) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Let an editor talk with a worker, by the Agent Client Protocol",
		Long: "Speaks the Agent Client Protocol on standard input and output, for editors that start an agent. Each prompt is done as " +
			"'handrail chat'\n" +
			"does a message. A call that needs a person's word waits for one, and the editor says where it is answered; in the editor only " +
			"where a rule of\n" +
			"policy names its user as approver.",
		Example:           "  handrail acp --offline",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	workerFlags(cmd, &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if terminal.FlagsOf(cmd).JSON {
			return terminal.UsageError("--json goes with commands for people; this one speaks JSON-RPC")
		}
		if !o.offline { // a model that is named wrong is known before the first prompt
			m, err := openModel(o.model, nil)
			if err != nil {
				return err
			}
			m.Close()
		}
		s, err := acp.New(acp.Options{
			In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr(), Program: version,
			Open: func(_ context.Context, e *acp.Editor) (acp.Session, error) { return openEdited(cmd, o, e) },
		})
		if err != nil {
			return err
		}
		return s.Run(cmd.Context())
	}
	return cmd
}

// edited is a conversation in an editor.
type edited struct {
	*conversation
	editor *acp.Editor
}

// openEdited begins one, in a lane of its own unless one is named.
func openEdited(cmd *cobra.Command, o runOptions, e *acp.Editor) (*edited, error) {
	o.editor, o.wait = e, true
	if o.lane == "" {
		o.lane = "acp-" + uuid.NewString()
	}
	c, err := newWorker(cmd, o, nil) // what is piped is no person's word
	if err != nil {
		return nil, err
	}
	return &edited{c, e}, nil
}

// Run does one message; acp.Session has what it returns.
func (d *edited) Run(ctx context.Context, message string) (cut bool, err error) {
	out, err := d.Engine.Run(ctx, message)
	spoken := d.speech.ends()
	if err != nil {
		return false, err
	}
	writeOutcome(d.editor, d.editor, out, spoken)
	if out.Ask != "" {
		fmt.Fprintf(d.editor, "It is not clear what you want. %s\n", capabilities.Printable(out.Ask))
	}
	return out.Stopped != "", nil
}

func (d *edited) Close() { d.close() }

// tellEditor shows the calls of a turn; stages is told all events, too, unless it is nil.
func tellEditor(e *acp.Editor, s *speech, stages func(worker.Event)) func(worker.Event) {
	return func(event worker.Event) {
		if done, ok := event.Body.(worker.Called); ok {
			s.ends() // what was said before a call is no answer
			e.Ended(done)
		}
		if stages != nil {
			stages(event)
		}
	}
}

// inEditor asks the person at the editor about a call that waits, where policy names its user as
// approver, and else says where it is answered. It reports that they were told.
func (g *workerGateway) inEditor(ctx context.Context, e *acp.Editor, a api.Approval) bool {
	var words strings.Builder
	if !a.User || len(a.Surface.Acknowledge) > 0 || !consent.Describe(&words, a) {
		fmt.Fprintln(e, toldWhere(a.Tool, g.remote, a.ID))
		return true
	}
	allow, answered := e.Ask(ctx, words.String())
	if ctx.Err() != nil { // it was answered elsewhere, or the turn was cancelled
		return true
	}
	if !answered {
		fmt.Fprintln(e, toldWhere(a.Tool, g.remote, a.ID))
		return true
	}
	_, err := g.asker.Answer(ctx, a.ID, client.Answer{Allow: allow, Reason: "answered in an editor"})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(e, "It cannot be answered from here: %s\n%s\n", capabilities.Printable(err.Error()), toldWhere(a.Tool, g.remote, a.ID))
	}
	return true
}
