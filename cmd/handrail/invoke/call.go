package invoke

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/cmd/handrail/remote"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Options are the flags of a call.
type Options struct {
	Args      string
	Pairs     []string
	node      string
	Lane      string
	requestID string
	out       string
	agent     bool
	// Answer asks a person here; false: they are told where to answer. Default: nobody is asked here.
	Answer func(ctx context.Context, a api.Approval) bool
}

// NewCallCmd makes 'handrail call'.
func NewCallCmd() *cobra.Command {
	var o Options
	cmd := &cobra.Command{
		Use:   "call TOOL [ARGS]",
		Short: "Call a tool and print its result",
		Long:  "ARGS is a JSON object, as for --args, or name=value for each argument, as for --arg.",
		Example: "  handrail call tool.browser.navigate url=https://example.com/\n" +
			"  handrail call tool.browser.screenshot --out shots\n" +
			"  handrail call --agent tool.desktop.screenshot '{\"display\":\"primary\"}'   # and answer it with handrail approve",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: remote.CompleteTools,
	}
	f := cmd.Flags()
	f.StringVar(&o.Args, "args", "", "arguments as a JSON object; - reads them from standard input")
	f.StringArrayVar(&o.Pairs, "arg", nil, "one argument as name=value, typed by the tool's schema (repeatable)")
	f.StringVar(&o.node, "node", "", "the node to carry it out")
	f.StringVar(&o.Lane, "lane", "", "the lane it belongs to (default: the token's)")
	f.StringVar(&o.requestID, "request-id", "", "makes a retry recognisable: the same ID is never carried out twice")
	f.StringVar(&o.out, "out", "", "directory to save images and other captured bytes in; made if it is not there")
	f.BoolVar(&o.agent, "agent", false, "call as an agent does, with the token in gateway/agent.token")
	_ = cmd.RegisterFlagCompletionFunc("arg", remote.CompleteArguments)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args[1:] {
			switch name, _, pair := strings.Cut(arg, "="); {
			case pair && !strings.ContainsAny(name, "{[\"") && name != "":
				o.Pairs = append(o.Pairs, arg)
			case len(args) > 2:
				return terminal.UsageHint("Give one JSON object, or name=value for each argument.", "%s is not name=value", terminal.Plain(arg))
			case o.Args != "":
				return terminal.UsageError("the arguments are given twice: as ARGS and with --args")
			default:
				o.Args = arg
			}
		}
		return runCall(cmd, args[0], o)
	}
	return cmd
}

func runCall(cmd *cobra.Command, tool string, o Options) error {
	c, err := remote.FindFor(cmd, o.agent)
	if err != nil {
		return err
	}
	args, err := o.Arguments(cmd, c, tool)
	if err != nil {
		return err
	}
	if o.out != "" {
		if info, err := os.Stat(o.out); err == nil && !info.IsDir() {
			return terminal.UsageError("--out %s is a file; name a directory", o.out)
		}
		if err := os.MkdirAll(o.out, 0o700); err != nil {
			return terminal.UsageError("--out: %v", err)
		}
	}
	request := api.MakeCall{
		Tool: capabilities.ToolID(tool), Args: args, Lane: capabilities.LaneID(o.Lane), RequestID: capabilities.RequestID(o.requestID),
	}
	var raw json.RawMessage
	stop := terminal.ShowWaiting(cmd, "waiting for "+tool)
	asker := c
	if o.agent {
		asker, _ = remote.Find(cmd)
	}
	quiet := ShowQuestions(cmd, c, asker, o, tool)
	err = c.Ask(cmd.Context(), http.MethodPost, remote.Path("calls"), request, &raw)
	quiet()
	stop()
	if err != nil {
		if o.requestID != "" && cmd.Context().Err() != nil {
			cancelRequest(cmd, c, o.requestID)
		}
		if cmd.Context().Err() != nil && !terminal.FlagsOf(cmd).JSON {
			fmt.Fprintln(cmd.ErrOrStderr(),
				"The call is cancelled. If it had started, its effect may have happened: 'handrail calls' says how it ended.")
		}
		return err
	}
	return c.LikeTool(cmd, tool, Print(cmd, c, raw, o.out))
}

// cancelRequest cancels a call on purpose: one with a request ID outlives the connection.
func cancelRequest(cmd *cobra.Command, c *remote.Gateway, id string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
	defer done()
	err := c.Ask(ctx, http.MethodDelete, remote.Path("calls", "request", id), nil, nil)
	if err != nil && capabilities.CodeOf(err) != capabilities.CodeNotFound { // it has ended
		fmt.Fprintf(cmd.ErrOrStderr(), "The call could not be cancelled and may go on: %v\n", err)
	}
}

// Arguments merges --args and --arg into one object. It stays raw JSON where the
// caller wrote JSON: the gateway, not this program, judges it.
func (o Options) Arguments(cmd *cobra.Command, c *remote.Gateway, tool string) (json.RawMessage, error) {
	text := o.Args
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<20+1))
		if err != nil {
			return nil, err
		}
		text = string(data)
	}
	if len(o.Pairs) == 0 && o.node == "" {
		if strings.TrimSpace(text) == "" {
			return json.RawMessage("{}"), nil
		}
		if !json.Valid([]byte(text)) {
			return nil, terminal.UsageError("--args is not JSON; write an object such as --args '{\"url\":\"https://example.com/\"}'")
		}
		return json.RawMessage(text), nil
	}
	merged := map[string]json.RawMessage{}
	if strings.TrimSpace(text) != "" {
		if err := json.Unmarshal([]byte(text), &merged); err != nil || merged == nil {
			return nil, terminal.UsageError("--args is not a JSON object")
		}
	}
	var types map[string]string
	if len(o.Pairs) > 0 {
		t, _, err := c.FindTool(cmd, o.Lane, tool)
		if err != nil {
			return nil, err
		}
		types = propertyTypes(t.Input)
	}
	for _, pair := range o.Pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, terminal.UsageError("--arg %q is not name=value", pair)
		}
		if _, twice := merged[name]; twice {
			return nil, terminal.UsageError("argument %q is given twice", name)
		}
		typed, err := typedValue(types[name], value)
		if err != nil {
			return nil, terminal.UsageError("--arg %s: %v", name, err)
		}
		merged[name] = typed
	}
	if o.node != "" {
		who := c
		if o.agent { // agents see no names of devices; the person who types one does
			if person, err := remote.Find(cmd); err == nil {
				who = person
			}
		}
		id, err := who.NodeID(cmd, o.node)
		if err != nil {
			return nil, err
		}
		o.node = id
		if _, twice := merged["node_id"]; twice {
			return nil, terminal.UsageError("node_id is given twice")
		}
		merged["node_id"], _ = json.Marshal(o.node)
	}
	return json.Marshal(merged)
}

// propertyTypes returns the JSON type of each top-level property of a schema;
// properties whose type is not one plain word are left out.
func propertyTypes(schema json.RawMessage) map[string]string {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	types := map[string]string{}
	for name, p := range s.Properties {
		if word, ok := p.Type.(string); ok {
			types[name] = word
		}
	}
	return types
}

// typedValue turns a word of the command line into JSON of the schema's type. A
// property without one is JSON where the word is JSON, else a string.
func typedValue(kind, word string) (json.RawMessage, error) {
	switch kind {
	case "string":
		return json.Marshal(word)
	case "":
		if json.Valid([]byte(word)) {
			return json.RawMessage(word), nil
		}
		return json.Marshal(word)
	}
	if !json.Valid([]byte(word)) {
		return nil, fmt.Errorf("%q is not a JSON %s", word, kind)
	}
	return json.RawMessage(word), nil
}

// Print shows how a call ended and returns the error that sets the exit code.
func Print(cmd *cobra.Command, c *remote.Gateway, raw json.RawMessage, dir string) error {
	var r capabilities.Result
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("the gateway's answer is not what this version expects: %w", err)
	}
	output := map[string]any{}
	if len(r.Output) > 0 {
		if err := json.Unmarshal(r.Output, &output); err != nil {
			return fmt.Errorf("the result is not a JSON object: %w", err)
		}
	}
	saved := false
	for i, b := range r.Blobs {
		file, err := takeBlob(output, b, dir, fmt.Sprintf("%s-%d", r.Call, i+1))
		if err != nil {
			return err
		}
		saved = saved || file != ""
	}
	kept, err := saveArtifacts(cmd, c, r, output, dir)
	if err != nil {
		return err
	}
	failure := Failure(r)
	out := cmd.OutOrStdout()
	if terminal.FlagsOf(cmd).JSON {
		if err := terminal.PrintJSON(out, withOutput(raw, output, saved, kept)); err != nil {
			return err
		}
		if failure != nil { // the object above has said it
			return &terminal.ExitError{Code: terminal.ExitCode(failure), Err: failure, Silent: true}
		}
		return nil
	}
	if failure != nil {
		return failure
	}
	var files []string // of the result's bytes, which people are told by what they are
	for _, b := range r.Blobs {
		text, ok := output[b.Field].(string)
		switch {
		case !ok:
			continue
		case dir == "":
			files = append(files, fmt.Sprintf("%s, %d bytes; --out DIR saves it", b.MIME, base64.StdEncoding.DecodedLen(len(text))))
		default:
			files = append(files, fmt.Sprintf("%s (%s)", text, b.MIME))
		}
		delete(output, b.Field)
	}
	if r.Ack && len(output) == 0 {
		fmt.Fprintln(out, "done")
	}
	terminal.PrintValue(out, "", output)
	for _, f := range files {
		fmt.Fprintln(out, terminal.Plain("file: "+f))
	}
	for i, a := range r.Artifacts {
		where := "handrail artifacts get " + string(a.ID)
		if kept[i] != "" {
			where = kept[i]
		}
		fmt.Fprintln(out, terminal.Plain(fmt.Sprintf("file: %s (%s, %d bytes): %s", a.Name, a.MIME, a.Size, where)))
	}
	if r.Effect != "" {
		fmt.Fprintln(out, terminal.Plain(strings.TrimSuffix(fmt.Sprintf("effect: %s (%s)", r.Effect, r.Evidence), " ()")))
	}
	if hint, action := r.Action.Unworded(r.Hint); hint != "" {
		fmt.Fprintln(out, terminal.Plain("hint: "+command.Hint(hint, action)))
	}
	return nil
}

// withOutput returns the result as it came, with its output replaced if changed, and
// with where its files were saved.
func withOutput(raw json.RawMessage, output map[string]any, changed bool, files []string) any {
	if !changed && !slices.ContainsFunc(files, func(f string) bool { return f != "" }) {
		return raw
	}
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	if changed {
		fields["output"] = output
	}
	list, _ := fields["artifacts"].([]any)
	for i, f := range files {
		if f == "" || i >= len(list) {
			continue
		}
		if a, ok := list[i].(map[string]any); ok {
			a["file"] = f
		}
	}
	return fields
}

// takeBlob saves the bytes of one blob below dir and puts the file's name in
// their place. Without dir the output stays as it is.
func takeBlob(output map[string]any, b capabilities.Blob, dir, name string) (string, error) {
	text, ok := output[b.Field].(string)
	if !ok || dir == "" {
		return "", nil
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("the bytes in %q do not decode: %w", b.Field, err)
	}
	// The name comes from the call ID, never from the other side's text.
	file := filepath.Join(dir, filepath.Base(filepath.Clean("/"+name))+extension(b.MIME))
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", err
	}
	output[b.Field] = file
	return file, nil
}

func extension(mime string) string {
	switch mime {
	case "image/png":
		return ".png"
	case "image/jpeg":
		return ".jpg"
	case "image/webp":
		return ".webp"
	case "audio/wav", "audio/x-wav":
		return ".wav"
	case "audio/ogg":
		return ".ogg"
	case "video/webm":
		return ".webm"
	case "video/mp4":
		return ".mp4"
	case "application/pdf":
		return ".pdf"
	}
	return ".bin"
}

// Failure is nil for a call that did what was asked.
func Failure(r capabilities.Result) error {
	if r.Status == capabilities.StatusOK {
		return nil
	}
	err := &capabilities.Error{Code: r.Code, Message: r.Message, Details: r.Details}
	err.Hint, err.Action = r.Action.Unworded(r.Hint)
	if err.Code == "" {
		err.Code = capabilities.CodeInternal
	}
	if _, mapped := terminal.ExitCodes[err.Code]; mapped || err.Code == capabilities.CodeAmbiguousNode {
		return err
	}
	switch r.Status {
	case capabilities.StatusDenied:
		return &terminal.ExitError{Code: terminal.ExitDenied, Err: err}
	case capabilities.StatusPending:
		return &terminal.ExitError{Code: terminal.ExitPending, Err: err}
	}
	return err
}
