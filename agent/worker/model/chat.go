package model

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/handrail-dev/handrail/agent/worker"
)

// chat asks by Chat Completions.
func (m *Model) chat(ctx context.Context, t worker.Turn) (worker.Answer, error) {
	ctx, heard, over := m.watch(ctx)
	defer over()
	params := openai.ChatCompletionNewParams{
		Model: m.opts.Model, Messages: chatMessages(t),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	for _, tool := range t.Tools {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.ID.WireName(), Description: openai.String(tool.Description), Parameters: schemaOf(tool),
		}))
	}
	stream := m.client.Chat.Completions.NewStreaming(ctx, params)
	defer stream.Close()
	var all openai.ChatCompletionAccumulator
	size := 0
	for stream.Next() {
		heard()
		chunk := stream.Current()
		for _, c := range chunk.Choices {
			size += len(c.Delta.Content)
			for _, call := range c.Delta.ToolCalls {
				size += len(call.Function.Arguments) + len(call.Function.Name)
				if call.Index < 0 || call.Index >= worker.MaxCalls {
					return worker.Answer{}, tooLong()
				}
			}
			if c.Index == 0 && c.Delta.Content != "" {
				m.opts.Tell(c.Delta.Content)
			}
		}
		if size > MaxAnswer {
			return worker.Answer{}, tooLong()
		}
		all.AddChunk(chunk)
	}
	if err := stream.Err(); err != nil {
		return worker.Answer{}, m.failed(ctx, err)
	}
	if len(all.Choices) == 0 || all.Choices[0].FinishReason == "" {
		return worker.Answer{}, m.failed(ctx, brokenOff())
	}
	choice := all.Choices[0]
	a := worker.Answer{Text: choice.Message.Content, Tokens: int(all.Usage.TotalTokens), Cut: choice.FinishReason == "length"}
	if a.Text == "" {
		a.Text = choice.Message.Refusal
	}
	known := namesOf(t.Tools)
	for _, c := range choice.Message.ToolCalls {
		a.Calls = append(a.Calls, worker.ToolCall{Tool: known.tool(c.Function.Name), Args: json.RawMessage(orObject(c.Function.Arguments))})
	}
	if a.Cut {
		a.Calls = nil // arguments that break off are none
	}
	return a, nil
}

// orObject stands for no arguments at all, as some endpoints write an empty object.
func orObject(args string) string {
	if args == "" {
		return "{}"
	}
	return args
}

func chatMessages(t worker.Turn) []openai.ChatCompletionMessageParamUnion {
	list := []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(instructions(t))}
	for _, s := range t.Before {
		if s.Person {
			list = append(list, openai.UserMessage(s.Text))
		} else {
			list = append(list, openai.AssistantMessage(s.Text))
		}
	}
	list = append(list, openai.UserMessage(t.Messages[0].Text))
	for i := 1; i < len(t.Messages); {
		// The calls of one round were one message of the model.
		end := i + 1
		for end < len(t.Messages) && t.Messages[end].Round == t.Messages[i].Round {
			end++
		}
		var asked openai.ChatCompletionAssistantMessageParam
		for n := i; n < end; n++ {
			call := t.Messages[n].Call
			asked.ToolCalls = append(asked.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
				OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
					ID: callID(n), Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
						Name: call.Tool.WireName(), Arguments: arguments(call.Args),
					},
				},
			})
		}
		list = append(list, openai.ChatCompletionMessageParamUnion{OfAssistant: &asked})
		for n := i; n < end; n++ {
			list = append(list, openai.ToolMessage(shown(t.Messages[n].Result), callID(n)))
		}
		i = end
	}
	return list
}

// arguments are those that a model wrote, if they were an object: an endpoint may refuse others.
func arguments(args json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil {
		return "{}"
	}
	return string(args)
}

func (m *Model) classifyByChat(ctx context.Context, instructions, message string, schema map[string]any) ([]byte, error) {
	c, err := m.client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
		Model: m.opts.Model, Temperature: openai.Float(0),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(instructions), openai.UserMessage(message)},
		ResponseFormat: openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "intent", Strict: openai.Bool(true), Schema: schema},
		}},
	})
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	if len(c.Choices) == 0 {
		return nil, brokenOff()
	}
	return []byte(c.Choices[0].Message.Content), nil
}
