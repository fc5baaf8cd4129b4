package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/acp"
	"github.com/handrail-dev/handrail/agent/worker/delegate"
	"github.com/handrail-dev/handrail/agent/worker/pipeline"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/agent/worker/template"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

type runOptions struct {
	offline, debug bool
	folds          bool // shows each call in a line, without a model, too
	wait           bool
	hooks          string
	// Of a job: its name in records, what names its calls, and who is told of its stages instead of
	// the terminal.
	session  string
	requests func(tool capabilities.ToolID, args []byte) string
	told     func(worker.Event)
	editor   *acp.Editor // in which the person sees what is done; nil: they sit at a terminal, or nobody is there
	lane     string
	model    modelOptions
	gateway  *remote.Gateway // elsewhere, that this worker joined; nil: the one that is found
	pipeline string          // file
	subAgent string          // does the tasks; empty: the worker itself
	inside   *api.Job        // of a sub-agent: its calls are made inside its parent's (S3-16)
}

// NewRunCmd returns the command that does one task and ends.
func NewRunCmd() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run TASK",
		Short: "Do a task by a worker that calls tools as an agent does",
		Long: "The worker finds out what TASK wants, opens only the tools for that, and calls them through the gateway, with the agent's token " +
			"of the data\n" +
			"directory. With --model and --endpoint a model does the task with those tools. --offline works without one: it reads pages, lists, " +
			"reads and\n" +
			"searches files of the workspace, looks at the screen, runs a command that stands in quotation marks, and remembers what you " +
			"ask it to.\n" +
			"A prefix names what is wanted: /read, /file, /screen, /run, /search and others (docs/worker.md).",
		Example: "  handrail run --offline 'read https://example.com/'\n" +
			"  handrail run --model qwen3:8b --endpoint http://127.0.0.1:11434/v1 'what do my notes say about rent?'\n" +
			"  handrail run --offline --debug-routing 'list the folder docs'\n" +
			"  handrail run --pipeline rent.yaml a.txt",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.pipeline != "" {
			return nil
		}
		return cobra.MinimumNArgs(1)(cmd, args)
	}
	workerFlags(cmd, &o)
	waitFlag(cmd, &o)
	cmd.Flags().StringVar(&o.pipeline, "pipeline", "", "file of steps to take, in place of what TASK would be understood as")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runTask(cmd, strings.Join(args, " "), o) }
	return cmd
}

func workerFlags(cmd *cobra.Command, o *runOptions) {
	f := cmd.Flags()
	f.BoolVar(&o.offline, "offline", false, "without a model, by heuristics and templates")
	f.BoolVar(&o.debug, "debug-routing", false, "print what each stage of the pipeline did, to standard error")
	f.StringVar(&o.hooks, "hooks",
		"", "file of commands to run before and after each call, which may refuse it (default: hooks.json of the data directory)")
	f.StringVar(&o.subAgent, "sub-agent", "", "name of a sub-agent that does what is wanted, in place of this worker")
	f.StringVar(&o.lane, "lane", "", "the lane that the calls belong to (default: the token's)")
	modelFlags(cmd, &o.model)
	cmd.MarkFlagsMutuallyExclusive("offline", "model")
	cmd.MarkFlagsMutuallyExclusive("offline", "endpoint")
}

func waitFlag(cmd *cobra.Command, o *runOptions) {
	cmd.Flags().BoolVar(&o.wait, "wait", false, "let a call that needs a person's word wait for one elsewhere, such as at the console")
}

func runTask(cmd *cobra.Command, task string, o runOptions) error {
	var answer func(context.Context, string) (string, error)
	if terminal.Interactive(cmd.InOrStdin()) && !terminal.FlagsOf(cmd).JSON {
		answer = asks(cmd)
	}
	var along *pipeline.Pipeline
	if o.pipeline != "" {
		var err error
		if _, along, err = readPipeline(o.pipeline); err != nil {
			return err
		}
		o.offline = o.offline || !along.Asks() // no model has a part in it
	}
	e, err := newWorker(cmd, o, answer)
	if err != nil {
		return err
	}
	defer e.close()
	run := func() (worker.Outcome, error) { return e.Run(cmd.Context(), task) }
	if along != nil {
		run = func() (worker.Outcome, error) { return e.Follow(cmd.Context(), along, task) }
	}
	out, err := run()
	spoken := e.speech.ends()
	if err != nil {
		return err
	}
	if err := showOutcome(cmd, out, spoken); err != nil {
		return err
	}
	return ending(cmd, &out)
}

// ending is the exit code of a task's end; its words are shown already.
func ending(cmd *cobra.Command, out *worker.Outcome) error {
	switch {
	case out.Ask != "":
		return unclear(*out)
	case out.Undone, out.Stopped != "":
		return &terminal.ExitError{Code: terminal.ExitFailed, Silent: true}
	case out.Last != nil:
		return &terminal.ExitError{Code: terminal.ExitCode(out.Last), Err: out.Last, Silent: !terminal.FlagsOf(cmd).JSON}
	}
	return nil
}

// asks returns what puts a question to the person at the terminal; it gives up when its context
// ends. Nothing is read before the first.
func asks(cmd *cobra.Command) func(ctx context.Context, question string) (string, error) {
	lines := sync.OnceValue(func() <-chan inputLine { return readLines(cmd.Context(), cmd.InOrStdin()) })
	return func(ctx context.Context, question string) (string, error) {
		fmt.Fprint(cmd.ErrOrStderr(), question)
		select {
		case line := <-lines(): // its end is a no
			return line.text, line.err
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// readPipeline returns a file's text, and the pipeline that it is.
func readPipeline(file string) ([]byte, *pipeline.Pipeline, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, terminal.UsageError("the pipeline cannot be read: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, pipeline.MaxFile+1))
	if err != nil {
		return nil, nil, terminal.UsageError("the pipeline cannot be read: %v", err)
	}
	p, err := pipeline.Read(text)
	return text, p, err
}

func isYes(answer string) bool {
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

func keepQuestion(fact string, private bool) string {
	if !private {
		return "Remember it, in your words? " + capabilities.Printable(fact) + " [y/N] "
	}
	return "That is private. Keep it? " + capabilities.Printable(fact) + " [y/N] "
}

func unclear(out worker.Outcome) error {
	return terminal.UsageHint("Say it in other words, or begin with a prefix: /read, /file, /screen, /run, /search, /web, /desktop.",
		"it is not clear what you want. %s", out.Ask)
}

// conversation is a worker that a person talks with.
type conversation struct {
	*worker.Engine
	speech *speech // of a model whose words are shown as they come; nil: of none
	close  func()
}

// newWorker makes the engine of one conversation; answer puts a question to the person at the
// terminal, nil: nobody can be asked.
func newWorker(cmd *cobra.Command, o runOptions, answer func(ctx context.Context, question string) (string, error)) (*conversation, error) {
	c := &conversation{close: func() {}}
	opts := worker.Options{Harness: template.Harness{}, Session: cmp.Or(o.session, uuid.NewString()), Waits: o.wait || o.inside != nil}
	if answer != nil {
		opts.Agree = func(ctx context.Context, fact string, private bool) (bool, error) {
			line, err := answer(ctx, keepQuestion(fact, private))
			return isYes(line), err
		}
	}
	var err error
	if opts.Hooks, err = readHooks(cmd, o.hooks); err != nil {
		return nil, err
	}
	var classifier router.Classifier
	tell := tellStages(cmd.ErrOrStderr(), o.debug)
	w, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if o.editor != nil {
		w, errs = o.editor, o.editor
	}
	if !o.offline {
		var words func(string)
		if !terminal.FlagsOf(cmd).JSON && o.told == nil {
			c.speech = newSpeech(w)
			words = c.speech.tell
			switch {
			case o.editor != nil: // it shows calls in a way of its own
			case tell == nil:
				tell = tellCalls(cmd.ErrOrStderr(), c.speech)
			default:
				tell = c.speech.between(tell)
			}
		}
		m, err := openModel(o.model, words)
		if err != nil {
			return nil, err
		}
		opts.Harness, classifier, c.close = m, m, m.Close
	}
	if tell == nil && o.folds {
		tell = tellCalls(cmd.ErrOrStderr(), nil)
	}
	if o.editor != nil {
		tell = tellEditor(o.editor, c.speech, tell)
	}
	if o.subAgent != "" {
		opts.Harness = delegate.Harness{Tool: capabilities.ToolID("tool.sub-agent." + o.subAgent)}
	}
	agent := os.Getenv("HANDRAIL_URL") == "" && os.Getenv("HANDRAIL_TOKEN") == ""
	caller := o.gateway
	if caller != nil {
		agent = false
	} else if caller, err = remote.FindFor(cmd, agent); err != nil {
		return nil, err
	}
	if opts.Router, err = router.New(classifier); err != nil {
		return nil, err
	}
	if o.told != nil {
		stages := tell
		tell = func(e worker.Event) {
			o.told(e)
			if stages != nil {
				stages(e)
			}
		}
	}
	g := &workerGateway{cmd: cmd, remote: caller, lane: o.lane, requests: o.requests, opts: o}
	if agent && o.told == nil {
		g.asker, _ = remote.Find(cmd)
	}
	if answer != nil && terminal.Interactive(cmd.InOrStdin()) {
		g.answer = answer
	}
	if answer != nil && g.asker != nil && terminal.Interactive(cmd.InOrStdin()) { // what is piped is no person's word
		permits := &workerPermits{cmd: cmd, g: g, answer: answer}
		opts.Permits = permits
		before := c.close
		c.close = func() { permits.close(); before() }
	} else if answer != nil && terminal.Interactive(cmd.InOrStdin()) {
		opts.Waits = true // the gateway says where to answer
	}
	opts.Gateway, opts.Record, opts.Tell = g, workerRecord{caller}, tell
	if !terminal.FlagsOf(cmd).JSON && o.told == nil {
		opts.Done = func(out worker.Outcome) { writeOutcome(w, errs, out, c.speech.ends()) }
	}
	if o.inside == nil { // a sub-agent sees its task alone
		opts.Memory = workerMemory{caller}
	}
	c.Engine, err = worker.New(opts)
	return c, err
}

// showOutcome prints what a turn said, unless it was spoken, and what came of each wish to remember
// or forget.
func showOutcome(cmd *cobra.Command, out worker.Outcome, spoken bool) error {
	w := cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		if err := json.NewEncoder(w).Encode(out); err != nil {
			return err
		}
		return out.Unrecorded
	}
	writeOutcome(w, cmd.ErrOrStderr(), out, spoken)
	return nil
}

// writeOutcome is showOutcome as text; what went wrong is written to errs.
func writeOutcome(w, errs io.Writer, out worker.Outcome, spoken bool) {
	if len(out.Steps) > 0 { // each is shown already
		fmt.Fprint(w, notBegun(out.Left))
		return
	}
	if out.Text != "" && !spoken {
		fmt.Fprintln(w, out.Text)
	}
	if out.Unrecorded != nil {
		fmt.Fprintf(errs, "The gateway has no record of this turn: %s\n", capabilities.Printable(out.Unrecorded.Error()))
	}
	if out.Stopped != "" {
		fmt.Fprintf(errs, "The turn was cut off: %s.\n", capabilities.Printable(out.Stopped))
	}
	for _, n := range out.Memory {
		text := capabilities.Printable(n.Text)
		switch n.Status {
		case worker.NotedKept:
			fmt.Fprintf(w, "Remembered: %s%s\n", text, endWords(n.Expires))
		case worker.NotedForgotten:
			fmt.Fprintf(w, "Forgotten: %s\n", cmp.Or(text, n.Fact))
		case worker.NotedUnknown:
			fmt.Fprintf(w, "Not forgotten: %s.\n", n.Why)
		default:
			fmt.Fprintf(w, "Not kept: %s.\n", n.Why)
		}
	}
}

// endWords says until when a fact is kept.
func endWords(end time.Time) string {
	if end.IsZero() {
		return ""
	}
	return " (kept until " + end.Local().Format("2006-01-02 15:04") + ")"
}

// notBegun says what of a message was left, a line for each.
func notBegun(left []string) string {
	var b strings.Builder
	for _, text := range left {
		fmt.Fprintf(&b, "Not begun, because what comes before it did not succeed: %s\n", capabilities.Printable(text))
	}
	return b.String()
}

// tellStages writes one line for each event, if anybody wants to read them (S2-45).
func tellStages(w io.Writer, debug bool) func(worker.Event) {
	if !debug {
		return nil
	}
	return func(e worker.Event) {
		body, err := json.Marshal(e.Body)
		if err != nil {
			body = []byte(err.Error())
		}
		fmt.Fprintf(w, "%s %-18s %s\n", e.At.Format("15:04:05.000"), e.Stage, capabilities.Printable(string(body)))
	}
}
