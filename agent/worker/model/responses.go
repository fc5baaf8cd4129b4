package model

import (
	"context"
	"encoding/json"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/capabilities"
)

// respond asks by Responses. Nothing of the conversation is kept at the endpoint.
func (m *Model) respond(ctx context.Context, t worker.Turn) (worker.Answer, error) {
	ctx, heard, over := m.watch(ctx)
	defer over()
	params := responses.ResponseNewParams{
		Model: m.opts.Model, Instructions: openai.String(instructions(t)), Store: openai.Bool(false),
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responseItems(t)},
	}
	for _, tool := range t.Tools {
		params.Tools = append(params.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: tool.ID.WireName(), Description: openai.String(tool.Description), Parameters: schemaOf(tool), Strict: openai.Bool(false),
		}})
	}
	stream := m.client.Responses.NewStreaming(ctx, params)
	defer stream.Close()
	var ended *responses.Response
	size := 0
	for stream.Next() {
		heard()
		e := stream.Current()
		size += len(e.Delta)
		if size > MaxAnswer {
			return worker.Answer{}, tooLong()
		}
		switch e.Type {
		case "response.output_text.delta":
			m.opts.Tell(e.Delta)
		case "response.completed", "response.incomplete":
			r := e.Response
			ended = &r
		case "response.failed":
			return worker.Answer{}, refused(e.Response.Error.Message)
		case "error":
			return worker.Answer{}, refused(e.Message)
		}
	}
	if err := stream.Err(); err != nil {
		return worker.Answer{}, m.failed(ctx, err)
	}
	if ended == nil {
		return worker.Answer{}, m.failed(ctx, brokenOff())
	}
	a := worker.Answer{Text: ended.OutputText(), Tokens: int(ended.Usage.TotalTokens), Cut: ended.Status == "incomplete"}
	known := namesOf(t.Tools)
	for _, item := range ended.Output {
		if item.Type == "function_call" && !a.Cut {
			call := item.AsFunctionCall()
			a.Calls = append(a.Calls, worker.ToolCall{Tool: known.tool(call.Name), Args: json.RawMessage(orObject(call.Arguments))})
		}
	}
	return a, nil
}

func refused(why string) error {
	return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's endpoint gave up: %s", capabilities.Clip(why, 300))
}

func responseItems(t worker.Turn) responses.ResponseInputParam {
	var list responses.ResponseInputParam
	for _, s := range t.Before {
		role := responses.EasyInputMessageRoleAssistant
		if s.Person {
			role = responses.EasyInputMessageRoleUser
		}
		list = append(list, responses.ResponseInputItemParamOfMessage(s.Text, role))
	}
	list = append(list, responses.ResponseInputItemParamOfMessage(t.Messages[0].Text, responses.EasyInputMessageRoleUser))
	for n := 1; n < len(t.Messages); n++ {
		call := t.Messages[n].Call
		result := responses.ResponseInputItemParamOfFunctionCallOutput(shown(t.Messages[n].Result))
		result.OfFunctionCallOutput.CallID = openai.String(callID(n))
		list = append(list, responses.ResponseInputItemParamOfFunctionCall(arguments(call.Args), callID(n), call.Tool.WireName()), result)
	}
	return list
}

func (m *Model) classifyByResponse(ctx context.Context, instructions, message string, schema map[string]any) ([]byte, error) {
	r, err := m.client.Responses.New(ctx, responses.ResponseNewParams{
		Model: m.opts.Model, Instructions: openai.String(instructions), Store: openai.Bool(false),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(message)},
		Text: responses.ResponseTextConfigParam{Format: responses.ResponseFormatTextConfigUnionParam{
			OfJSONSchema: &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "intent", Strict: openai.Bool(true), Schema: schema},
		}},
	})
	if err != nil {
		return nil, m.failed(ctx, err)
	}
	return []byte(r.OutputText()), nil
}
