package workers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/model"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/cmd/handrail/terminal"
)

// modelOptions say which model a worker asks.
type modelOptions struct {
	name, endpoint, api, keyFile string
}

func modelFlags(cmd *cobra.Command, o *modelOptions) {
	f := cmd.Flags()
	f.StringVar(&o.name, "model", "", "the model to ask, as its endpoint names it (default: HANDRAIL_MODEL)")
	f.StringVar(&o.endpoint, "endpoint",
		"", "base URL of an endpoint that speaks OpenAI's API, such as http://127.0.0.1:11434/v1 (default: HANDRAIL_ENDPOINT)")
	f.StringVar(&o.api, "api", string(model.Chat), "what the endpoint speaks: chat (Chat Completions) or responses")
	f.StringVar(&o.keyFile, "model-key-file", "", "file with the endpoint's key (default: the key in HANDRAIL_MODEL_KEY, or none)")
	_ = cmd.RegisterFlagCompletionFunc(
		"api", cobra.FixedCompletions([]string{string(model.Chat), string(model.Responses)}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("model", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("endpoint", cobra.NoFileCompletions)
}

// openModel makes the way to the model; tell is told its words as they come, nil: nobody.
func openModel(o modelOptions, tell func(string)) (*model.Model, error) {
	name, endpoint := cmp.Or(o.name, os.Getenv("HANDRAIL_MODEL")), cmp.Or(o.endpoint, os.Getenv("HANDRAIL_ENDPOINT"))
	if name == "" || endpoint == "" {
		return nil, terminal.UsageHint("Add --model NAME --endpoint URL, or --offline to work without a model.",
			"it is not said which model to ask, and where")
	}
	key := []byte(os.Getenv("HANDRAIL_MODEL_KEY"))
	if o.keyFile != "" {
		var err error
		if key, err = readModelKey(o.keyFile); err != nil {
			return nil, err
		}
	}
	opts := model.Options{Endpoint: endpoint, Model: name, API: model.API(o.api), Tell: tell}
	if len(key) > 0 {
		opts.Key = capabilities.NewSecret(key)
	}
	m, err := model.New(opts)
	if err != nil {
		return nil, terminal.UsageError("%s", err)
	}
	return m, nil
}

func readModelKey(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, terminal.UsageError("the key cannot be read: %v", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, capabilities.MaxSecret+1))
	if err != nil {
		return nil, terminal.UsageError("the key cannot be read: %v", err)
	}
	if data = []byte(strings.TrimSpace(string(data))); len(data) == 0 || len(data) > capabilities.MaxSecret {
		return nil, terminal.UsageError("%s holds no key of at most %d bytes", file, capabilities.MaxSecret)
	}
	return data, nil
}

// speech shows a model's words as they come. Its methods are called by one goroutine.
type speech struct {
	w    io.Writer
	mark *terminal.Markdown // shows them on a terminal; nil: they are written as they are
	said bool               // something since the last break
	last byte
}

func newSpeech(w io.Writer) *speech {
	s := &speech{w: w}
	if terminal.Marks(w) {
		s.mark = terminal.NewMarkdown(w)
	}
	return s
}

func (s *speech) tell(text string) {
	if text == "" {
		return
	}
	safe := capabilities.EscapeBut(text, map[rune]string{'\n': "\n", '\t': "\t"})
	if s.mark != nil {
		s.mark.Add(safe)
	} else {
		fmt.Fprint(s.w, safe)
	}
	s.said, s.last = true, text[len(text)-1]
}

// ends closes the line that is open. It reports whether anything was said since its last call.
func (s *speech) ends() bool {
	if s == nil {
		return false
	}
	s.breaks()
	said := s.said
	s.said = false
	return said
}

// breaks closes the line that is open, so that another line may follow.
func (s *speech) breaks() {
	if s.mark != nil {
		s.mark.End()
	}
	if s.said && s.last != '\n' {
		fmt.Fprintln(s.w)
		s.last = '\n'
	}
}

// between has stages told on lines of their own, among words that are shown as they come.
func (s *speech) between(stages func(worker.Event)) func(worker.Event) {
	return func(e worker.Event) {
		if _, ok := e.Body.(worker.Called); ok {
			s.ends() // what was said before a call is no answer
		} else {
			s.breaks()
		}
		stages(e)
	}
}

// tellCalls writes one line for each call of a turn, with what it did.
func tellCalls(w io.Writer, s *speech) func(worker.Event) {
	return func(e worker.Event) {
		c, ok := e.Body.(worker.Called)
		if !ok {
			return
		}
		s.ends()
		fmt.Fprintln(w, capabilities.Printable(callLine(c)))
	}
}

// maxArgs is how much of a call's arguments its line shows.
const maxArgs = 120

func callLine(c worker.Called) string {
	args, err := json.Marshal(c.Args)
	if err != nil {
		args = nil
	}
	line := fmt.Sprintf("· %s %s: %s", c.Tool, capabilities.Clip(string(args), maxArgs), cmp.Or(string(c.Code), c.Status))
	if c.Effect != "" {
		line += fmt.Sprintf(", effect %s", c.Effect)
	}
	if c.Evidence != "" {
		line += fmt.Sprintf(" (%s)", c.Evidence)
	}
	return line
}
