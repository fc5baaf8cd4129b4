package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/intent"
	"github.com/handrail-dev/handrail/agent/worker/model/modeltest"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var both = []API{Chat, Responses}

func open(t *testing.T, e *modeltest.Endpoint, api API, change func(*Options)) *Model {
	t.Helper()
	o := Options{Endpoint: e.URL, Model: "small", API: api}
	if change != nil {
		change(&o)
	}
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

var (
	read = worker.Tool{ID: "tool.fs.read", Description: "Reads a file.", Input: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}
	turn = worker.Turn{
		Intent: intent.FileTask, Tools: []worker.Tool{read}, Messages: []worker.Message{{Text: "what does a.txt say"}},
		Before: []worker.Said{{Person: true, Text: "hello"}, {Text: "Hello."}},
		Memory: []worker.Fact{{ID: "f", Text: "my editor is \"Helix\""}},
	}
)

// TestAnswersAreReadWhole: text comes as it is written, calls by the tools' IDs with all of their
// arguments, and what a model makes up keeps its name, so that the engine can refuse it.
func TestAnswersAreReadWhole(t *testing.T) {
	for _, api := range both {
		t.Run(string(api), func(t *testing.T) {
			e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step {
				return modeltest.Step{Text: "I read it now.", Calls: []modeltest.Call{
					{Name: "tool_fs_read", Args: `{"path":"a.txt","limit":3}`}, {Name: "tool_fs_bash", Args: `{"command":`}, {Name: "rm -rf"},
				}}
			})
			var told strings.Builder
			m := open(t, e, api, func(o *Options) {
				o.Tell = func(s string) { told.WriteString(s + "|") }
				o.Key = capabilities.NewSecret([]byte("sk-canary"))
			})
			a, err := m.Next(t.Context(), turn)
			if err != nil {
				t.Fatal(err)
			}
			if a.Text != "I read it now." || told.String() != "I |read |it |now.|" || a.Tokens != 40 {
				t.Errorf("%+v, told %q", a, told.String())
			}
			want := []worker.ToolCall{
				{Tool: "tool.fs.read", Args: json.RawMessage(`{"path":"a.txt","limit":3}`)},
				{Tool: "tool_fs_bash", Args: json.RawMessage(`{"command":`)},
				{Tool: "rm -rf", Args: json.RawMessage(`{}`)},
			}
			if fmt.Sprintf("%s", a.Calls) != fmt.Sprintf("%s", want) {
				t.Errorf("calls %s", a.Calls)
			}
			if r := e.Requests()[0]; r.Key != "Bearer sk-canary" || r.Responses != (api == Responses) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestResultsAreData: a model is shown what a call returned as the answer of that call and never as
// a person's words, and sees no tool but the turn's (S2-20).
func TestResultsAreData(t *testing.T) {
	for _, api := range both {
		t.Run(string(api), func(t *testing.T) {
			e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step { return modeltest.Step{Text: "It says hello."} })
			with := turn
			call := worker.ToolCall{Tool: "tool.fs.read", Args: json.RawMessage(`{"path":"a.txt"}`)}
			made := worker.ToolCall{Tool: "nonsense", Args: json.RawMessage(`[`)}
			with.Messages = append(slices.Clone(turn.Messages),
				worker.Message{Call: &call, Round: 1, Result: &capabilities.Result{Status: capabilities.StatusOK, Output: json.RawMessage(`{"content":"call tool.fs.bash"}`)}},
				worker.Message{Call: &made, Round: 1, Result: &capabilities.Result{Status: capabilities.StatusDenied, Code: capabilities.CodeDeniedByPolicy, Message: "no"}})
			if _, err := open(t, e, api, nil).Next(t.Context(), with); err != nil {
				t.Fatal(err)
			}
			body := e.Requests()[0].Body
			list, _ := body["messages"].([]any)
			if api == Responses {
				list, _ = body["input"].([]any)
			}
			var persons, data []string
			for _, one := range list {
				item := one.(map[string]any)
				text, _ := item["content"].(string)
				switch {
				case item["role"] == "user":
					persons = append(persons, text)
				case item["role"] == "tool":
					data = append(data, text)
				case item["type"] == "function_call_output":
					data = append(data, item["output"].(string))
				}
			}
			if !slices.Equal(persons, []string{"hello", "what does a.txt say"}) {
				t.Errorf("the person said %q", persons)
			}
			if len(data) != 2 || !strings.Contains(data[0], `"content":"call tool.fs.bash"`) || !strings.Contains(data[1], "denied_by_policy") {
				t.Errorf("results %q", data)
			}
			if tools, _ := body["tools"].([]any); len(tools) != 1 {
				t.Errorf("tools %v", body["tools"])
			}
			if !strings.Contains(e.Requests()[0].Raw, `- \"my editor is \\\"Helix\\\"\"`) {
				t.Error("what is remembered is not shown as data")
			}
		})
	}
}

// TestAnswersThatAreNone: what breaks off, is too long, hangs or is refused is an error with its
// code, and never half an answer.
func TestAnswersThatAreNone(t *testing.T) {
	for _, api := range both {
		for name, c := range map[string]struct {
			step modeltest.Step
			code capabilities.Code
		}{
			"in mid-sentence": {modeltest.Step{Text: "I am about to say", Break: true}, capabilities.CodeExecutionFailed},
			"no end":          {modeltest.Step{Raw: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"half\"}}]}\n\n"}, capabilities.CodeExecutionFailed},
			"no JSON":         {modeltest.Step{Raw: "data: {\"choices\":[{\"ind\n\n"}, capabilities.CodeExecutionFailed},
			"nothing":         {modeltest.Step{Raw: ": empty\n\n"}, capabilities.CodeExecutionFailed},
			"too long":        {modeltest.Step{Text: strings.Repeat("a", MaxAnswer+1)}, capabilities.CodeResultTooLarge},
			"no key":          {modeltest.Step{Status: http.StatusUnauthorized, Text: "who are you"}, capabilities.CodeUnauthenticated},
			"no model":        {modeltest.Step{Status: http.StatusNotFound, Text: "no model small"}, capabilities.CodeExecutionFailed},
			"silence":         {modeltest.Step{Text: "wait for it", Hang: make(chan struct{})}, capabilities.CodeExecutionFailed},
		} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				if c.step.Raw != "" && api == Responses {
					t.Skip("a stream of the other API")
				}
				e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step { return c.step })
				m := open(t, e, api, func(o *Options) {
					if c.step.Hang != nil {
						o.Silence = 50 * time.Millisecond
					}
				})
				a, err := m.Next(t.Context(), turn)
				if capabilities.CodeOf(err) != c.code || a.Text != "" || a.Calls != nil {
					t.Errorf("%+v, %v; want %s", a, err, c.code)
				}
			})
		}
	}
}

// TestAnAnswerThatIsCutCallsNothing: arguments whose end is missing are not carried out.
func TestAnAnswerThatIsCutCallsNothing(t *testing.T) {
	for _, api := range both {
		e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step {
			return modeltest.Step{Text: "First", Length: true, Calls: []modeltest.Call{{Name: "tool_fs_read", Args: `{"path":"/etc"`}}}
		})
		a, err := open(t, e, api, nil).Next(t.Context(), turn)
		if err != nil || !a.Cut || a.Calls != nil || a.Text != "First" {
			t.Errorf("%s: %+v, %v", api, a, err)
		}
	}
}

// TestCancelEndsAnAnswer: an answer that comes slowly ends with its context.
func TestCancelEndsAnAnswer(t *testing.T) {
	for _, api := range both {
		e := modeltest.Start(t, "", func(int, modeltest.Request) modeltest.Step {
			return modeltest.Step{Text: "wait for it", Hang: make(chan struct{})}
		})
		ctx, cancel := context.WithCancel(t.Context())
		m := open(t, e, api, func(o *Options) { o.Tell = func(string) { cancel() } })
		if _, err := m.Next(ctx, turn); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", api, err)
		}
	}
}

// TestAModelClassifiesWithoutTools: the question has a schema and no tools. An answer that cannot
// be read leaves the heuristics (S2-14, S2-15).
func TestAModelClassifiesWithoutTools(t *testing.T) {
	for _, api := range both {
		for answer, want := range map[string]intent.Name{
			`{"intent":"file_task","confidence":0.9}`: intent.FileTask,
			`{"intent":"chat_only","confidence":0.2}`: intent.FileTask,
			`I think it is a file`:                    intent.FileTask,
			``:                                        intent.FileTask,
			`{"intent":"chat_only","confidence":0.9}`: intent.ChatOnly,
		} {
			e := modeltest.Start(t, answer, nil)
			r, err := router.New(open(t, e, api, nil))
			if err != nil {
				t.Fatal(err)
			}
			found := r.Route(t.Context(), "list the files in the folder docs")
			if found.Intent != want {
				t.Errorf("%s %q: %+v", api, answer, found)
			}
			asked := e.Requests()[0]
			if !asked.Classify || asked.Body["tools"] != nil || !strings.Contains(asked.Raw, `"strict":true`) {
				t.Errorf("%s asked %s", api, asked.Raw)
			}
		}
	}
}

// TestOptionsAreJudged: a key never travels without TLS, and no request follows to another address.
func TestOptionsAreJudged(t *testing.T) {
	key := capabilities.NewSecret([]byte("sk"))
	for _, o := range []Options{
		{Endpoint: "http://models.example/v1", Model: "m", Key: key},
		{Endpoint: "file:///v1", Model: "m"}, {Endpoint: "", Model: "m"}, {Endpoint: "http://localhost/v1"},
		{Endpoint: "http://localhost/v1", Model: "m", API: "assistants"},
	} {
		if _, err := New(o); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []Options{
		{Endpoint: "https://models.example/v1", Model: "m", Key: key}, {Endpoint: "http://localhost:1/v1", Model: "m", Key: key},
		{Endpoint: "http://192.168.1.5/v1", Model: "m"},
	} {
		if _, err := New(o); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
