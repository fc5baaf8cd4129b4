package model

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/capabilities"
)

// The forms of a question by Responses, as far as they are used here. Store is always false:
// nothing of the conversation is kept at the endpoint.
type (
	responsesAsk struct {
		Model        string          `json:"model"`
		Instructions string          `json:"instructions"`
		Input        any             `json:"input"`
		Store        bool            `json:"store"`
		Stream       bool            `json:"stream,omitempty"`
		Tools        []responsesTool `json:"tools,omitempty"`
		Text         any             `json:"text,omitempty"`
	}
	responsesTool struct {
		Type string `json:"type"`
		toolDefinition
		Strict bool `json:"strict"`
	}
	responsesItem struct {
		Type      string  `json:"type,omitempty"`
		Role      string  `json:"role,omitempty"`
		Content   string  `json:"content,omitempty"`
		CallID    string  `json:"call_id,omitempty"`
		Name      string  `json:"name,omitempty"`
		Arguments string  `json:"arguments,omitempty"`
		Output    *string `json:"output,omitempty"`
	}
)

// response is an answer, whole.
type response struct {
	Status string `json:"status"`
	Output []struct {
		Type      string `json:"type"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
		Content   []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Refusal string `json:"refusal"`
		} `json:"content"`
	} `json:"output"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// text returns the text of the answer; if it has none, what the model said instead.
func (r *response) text() string {
	var text, refusal strings.Builder
	for _, item := range r.Output {
		for _, c := range item.Content {
			if c.Type == "output_text" {
				text.WriteString(c.Text)
			}
			refusal.WriteString(c.Refusal)
		}
	}
	if text.Len() == 0 {
		return refusal.String()
	}
	return text.String()
}

// respond asks by Responses.
func (m *Model) respond(ctx context.Context, t worker.Turn) (worker.Answer, error) {
	ctx, heard, over := m.watch(ctx)
	defer over()
	ask := responsesAsk{Model: m.opts.Model, Instructions: instructions(t), Input: responsesItems(t), Stream: true}
	for _, tool := range t.Tools {
		ask.Tools = append(ask.Tools, responsesTool{"function", toolDefinition{tool.ID.WireName(), tool.Description, schemaOf(tool)}, false})
	}
	var ended *response
	size := 0
	if err := m.at.Stream(ctx, "/responses", ask, func(data []byte) error {
		heard()
		if string(data) == "[DONE]" {
			return nil
		}
		// Only what is read is decoded: other events have a delta of another form.
		var e struct {
			Type     string          `json:"type"`
			Delta    json.RawMessage `json:"delta"`
			Response response        `json:"response"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		if size += len(e.Delta); size > MaxAnswer {
			return tooLong()
		}
		switch e.Type {
		case "response.output_text.delta":
			var text string
			if err := json.Unmarshal(e.Delta, &text); err != nil {
				return err
			}
			m.opts.Tell(text)
		case "response.completed", "response.incomplete":
			ended = &e.Response
		case "response.failed":
			return gaveUp(e.Response.Error)
		case "error":
			return gaveUp(data)
		}
		return nil
	}); err != nil {
		return worker.Answer{}, m.failed(ctx, err)
	}
	if ended == nil {
		return worker.Answer{}, m.failed(ctx, brokenOff())
	}
	a := worker.Answer{Text: ended.text(), Tokens: ended.Usage.Total, Cut: ended.Status == "incomplete"}
	if len(a.Text) > MaxAnswer {
		return worker.Answer{}, tooLong()
	}
	if a.Cut {
		return a, nil // arguments that break off are none
	}
	known := namesOf(t.Tools)
	for _, item := range ended.Output {
		if item.Type == "function_call" {
			a.Calls = append(a.Calls, worker.ToolCall{Tool: known.tool(item.Name), Args: json.RawMessage(orObject(item.Arguments))})
		}
	}
	return a, nil
}

// gaveUp words an error that the endpoint tells in its stream: a text, or an object with a message.
func gaveUp(told json.RawMessage) error {
	var form struct {
		Message string `json:"message"`
	}
	why := string(told)
	if json.Unmarshal(told, &form) == nil && form.Message != "" {
		why = form.Message
	}
	return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's endpoint gave up: %s", capabilities.Clip(why, 300))
}

func responsesItems(t worker.Turn) []responsesItem {
	var list []responsesItem
	for _, s := range t.Before {
		list = append(list, responsesItem{Role: roleOf(s), Content: s.Text})
	}
	list = append(list, responsesItem{Role: "user", Content: t.Messages[0].Text})
	for n := 1; n < len(t.Messages); n++ {
		call, result := t.Messages[n].Call, shown(t.Messages[n].Result)
		list = append(list,
			responsesItem{Type: "function_call", CallID: callID(n), Name: call.Tool.WireName(), Arguments: arguments(call.Args)},
			responsesItem{Type: "function_call_output", CallID: callID(n), Output: &result})
	}
	return list
}

func (m *Model) classifyByResponse(ctx context.Context, instructions, message string, schema json.RawMessage) ([]byte, error) {
	var r response
	if err := m.at.Ask(ctx, "/responses", responsesAsk{
		Model: m.opts.Model, Instructions: instructions, Input: message,
		Text: map[string]any{"format": map[string]any{"type": "json_schema", "name": "intent", "strict": true, "schema": schema}},
	}, &r); err != nil {
		return nil, m.failed(ctx, err)
	}
	return []byte(r.text()), nil
}
