package model

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker"
)

// The forms of a question by Chat Completions, as far as they are used here.
type (
	chatAsk struct {
		Model         string         `json:"model"`
		Messages      []chatMessage  `json:"messages"`
		Tools         []chatTool     `json:"tools,omitempty"`
		Stream        bool           `json:"stream,omitempty"`
		StreamOptions map[string]any `json:"stream_options,omitempty"`
		Temperature   *float64       `json:"temperature,omitempty"`
		Format        any            `json:"response_format,omitempty"`
	}
	chatMessage struct {
		Role    string     `json:"role"`
		Content *string    `json:"content,omitempty"`
		Calls   []chatCall `json:"tool_calls,omitempty"`
		CallID  string     `json:"tool_call_id,omitempty"`
	}
	chatCall struct {
		Index    int          `json:"index,omitempty"` // in streams only
		ID       string       `json:"id,omitempty"`
		Type     string       `json:"type,omitempty"`
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	chatTool struct {
		Type     string         `json:"type"`
		Function toolDefinition `json:"function"`
	}
	toolDefinition struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// chatAnswer is an answer at once, or a piece of one.
type chatAnswer struct {
	Choices []struct {
		Index   int       `json:"index"`
		Delta   chatPiece `json:"delta"`
		Message chatPiece `json:"message"`
		Finish  string    `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatPiece struct {
	Content string     `json:"content"`
	Refusal string     `json:"refusal"`
	Calls   []chatCall `json:"tool_calls"`
}

// chat asks by Chat Completions.
func (m *Model) chat(ctx context.Context, t worker.Turn) (worker.Answer, error) {
	ctx, heard, over := m.watch(ctx)
	defer over()
	ask := chatAsk{Model: m.opts.Model, Messages: chatMessages(t), Stream: true, StreamOptions: map[string]any{"include_usage": true}}
	for _, tool := range t.Tools {
		ask.Tools = append(ask.Tools, chatTool{"function", toolDefinition{tool.ID.WireName(), tool.Description, schemaOf(tool)}})
	}
	var all chatSum
	if err := m.at.Stream(ctx, "/chat/completions", ask, func(data []byte) error {
		heard()
		return all.add(data, m.opts.Tell)
	}); err != nil {
		return worker.Answer{}, m.failed(ctx, err)
	}
	if all.finish == "" {
		return worker.Answer{}, m.failed(ctx, brokenOff())
	}
	a := worker.Answer{Text: all.text.String(), Tokens: all.tokens, Cut: all.finish == "length"}
	if a.Text == "" {
		a.Text = all.refusal.String()
	}
	if a.Cut {
		return a, nil // arguments that break off are none
	}
	known := namesOf(t.Tools)
	for _, c := range all.calls {
		a.Calls = append(a.Calls, worker.ToolCall{Tool: known.tool(c.name.String()), Args: json.RawMessage(orObject(c.args.String()))})
	}
	return a, nil
}

// chatSum puts the pieces of an answer together.
type chatSum struct {
	text, refusal strings.Builder
	calls         []*chatSumCall
	finish        string
	tokens, size  int
}

type chatSumCall struct{ name, args strings.Builder }

func (s *chatSum) add(data []byte, tell func(string)) error {
	if string(data) == "[DONE]" {
		return nil
	}
	var piece chatAnswer
	if err := json.Unmarshal(data, &piece); err != nil {
		return err
	}
	if len(piece.Error) > 0 && string(piece.Error) != "null" {
		return gaveUp(piece.Error)
	}
	if piece.Usage.Total != 0 {
		s.tokens = piece.Usage.Total
	}
	for _, c := range piece.Choices {
		s.size += len(c.Delta.Content) + len(c.Delta.Refusal)
		for _, call := range c.Delta.Calls {
			s.size += len(call.Function.Arguments) + len(call.Function.Name)
			if call.Index < 0 || call.Index >= worker.MaxCalls {
				return tooMany()
			}
		}
		if s.size > MaxAnswer {
			return tooLong()
		}
		if c.Index != 0 {
			continue
		}
		if c.Finish != "" {
			s.finish = c.Finish
		}
		s.text.WriteString(c.Delta.Content)
		s.refusal.WriteString(c.Delta.Refusal)
		if c.Delta.Content != "" {
			tell(c.Delta.Content)
		}
		for _, call := range c.Delta.Calls {
			for len(s.calls) <= call.Index {
				s.calls = append(s.calls, &chatSumCall{})
			}
			s.calls[call.Index].name.WriteString(call.Function.Name)
			s.calls[call.Index].args.WriteString(call.Function.Arguments)
		}
	}
	return nil
}

// orObject stands for no arguments at all, as some endpoints write an empty object.
func orObject(args string) string {
	if args == "" {
		return "{}"
	}
	return args
}

func chatMessages(t worker.Turn) []chatMessage {
	say := func(role, text string) chatMessage { return chatMessage{Role: role, Content: &text} }
	list := []chatMessage{say("system", instructions(t))}
	for _, s := range t.Before {
		list = append(list, say(roleOf(s), s.Text))
	}
	list = append(list, say("user", t.Messages[0].Text))
	for i := 1; i < len(t.Messages); {
		// The calls of one round were one message of the model.
		end := i + 1
		for end < len(t.Messages) && t.Messages[end].Round == t.Messages[i].Round {
			end++
		}
		asked := chatMessage{Role: "assistant"}
		for n := i; n < end; n++ {
			call := t.Messages[n].Call
			asked.Calls = append(asked.Calls, chatCall{
				ID: callID(n), Type: "function", Function: chatFunction{call.Tool.WireName(), arguments(call.Args)},
			})
		}
		list = append(list, asked)
		for n := i; n < end; n++ {
			answer := say("tool", shown(t.Messages[n].Result))
			answer.CallID = callID(n)
			list = append(list, answer)
		}
		i = end
	}
	return list
}

func roleOf(s worker.Said) string {
	if s.Person {
		return "user"
	}
	return "assistant"
}

// arguments are those that a model wrote, if they were an object: an endpoint may refuse others.
func arguments(args json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return "{}"
	}
	return string(args)
}

func (m *Model) classifyByChat(ctx context.Context, instructions, message string, schema json.RawMessage) ([]byte, error) {
	var c chatAnswer
	coldest := 0.0
	if err := m.at.Ask(ctx, "/chat/completions", chatAsk{
		Model: m.opts.Model, Temperature: &coldest,
		Messages: []chatMessage{{Role: "system", Content: &instructions}, {Role: "user", Content: &message}},
		Format:   map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "intent", "strict": true, "schema": schema}},
	}, &c); err != nil {
		return nil, m.failed(ctx, err)
	}
	if len(c.Choices) == 0 {
		return nil, brokenOff()
	}
	return []byte(c.Choices[0].Message.Content), nil
}
