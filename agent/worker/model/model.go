package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/agent/worker"
	"github.com/handrail-dev/handrail/agent/worker/model/endpoint"
	"github.com/handrail-dev/handrail/agent/worker/router"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

// Bounds.
const (
	MaxAnswer  = 1 << 20         // bytes of text and arguments that one answer may have
	MaxSilence = 2 * time.Minute // without a byte from the endpoint
)

// API is what an endpoint speaks.
type API string

// The APIs.
const (
	Chat      API = "chat"      // Chat Completions: POST {endpoint}/chat/completions
	Responses API = "responses" // POST {endpoint}/responses
)

// Options of New.
type Options struct {
	Endpoint string              // base URL, such as http://127.0.0.1:11434/v1
	Model    string              // name of the model there
	API      API                 // default Chat
	Key      capabilities.Secret // sent as bearer token; the zero value: none
	// Tell is told each piece of the answer's text as it comes; default: nobody.
	Tell func(text string)
	// Silence is how long the endpoint may send nothing; default MaxSilence.
	Silence time.Duration
}

// Model is one model at one endpoint. It is safe for concurrent use, but for what Tell sees.
type Model struct {
	opts Options
	at   *endpoint.Endpoint
}

var (
	_ worker.Harness    = (*Model)(nil)
	_ router.Classifier = (*Model)(nil)
)

// New makes a Model. It asks nothing of the endpoint yet. Its errors are invalid_arguments: an
// address that is none, and a key that would travel without TLS.
func New(o Options) (*Model, error) {
	d := address.Classify(o.Endpoint)
	if (d.Scheme != "http" && d.Scheme != "https") || d.Host == "" {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the endpoint %q is no http or https address", o.Endpoint)
	}
	if !o.Key.IsZero() && d.Scheme == "http" && d.Address != address.Loopback && d.Host != "localhost" {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the key would travel to %s without TLS: use https, or no key", d.Host)
	}
	if o.Model == "" {
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the model has no name")
	}
	switch o.API {
	case "":
		o.API = Chat
	case Chat, Responses:
	default:
		return nil, capabilities.Errorf(capabilities.CodeInvalidArguments, "the API %q is neither %s nor %s", o.API, Chat, Responses)
	}
	if o.Silence == 0 {
		o.Silence = MaxSilence
	}
	if o.Tell == nil {
		o.Tell = func(string) {}
	}
	return &Model{o, endpoint.Open(o.Endpoint, o.Key)}, nil
}

// Close ends connections that wait for another request.
func (m *Model) Close() { m.at.Close() }

// Next asks for the next step of a turn. Its errors are execution_failed, unauthenticated,
// result_too_large and the context's.
func (m *Model) Next(ctx context.Context, t worker.Turn) (worker.Answer, error) {
	ask := m.chat
	if m.opts.API == Responses {
		ask = m.respond
	}
	a, err := ask(ctx, t)
	if err == nil && len(a.Calls) == 0 && strings.TrimSpace(a.Text) == "" && !t.Keeps { // it must not look as if all went well
		a.Text, a.Undone = "The model said nothing.", len(t.Messages) == 1
	}
	return a, err
}

// Classify asks for an answer by a schema, without tools. It returns the answer's text.
func (m *Model) Classify(ctx context.Context, instructions, message string, schema json.RawMessage) ([]byte, error) {
	ctx, over := context.WithTimeout(ctx, m.opts.Silence)
	defer over()
	if m.opts.API == Responses {
		return m.classifyByResponse(ctx, instructions, message, schema)
	}
	return m.classifyByChat(ctx, instructions, message, schema)
}

// watch returns a context that ends when heard is not called for the time of silence.
func (m *Model) watch(ctx context.Context) (_ context.Context, heard func(), over func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(m.opts.Silence, func() {
		cancel(capabilities.Errorf(capabilities.CodeExecutionFailed, "the model said nothing for %s", m.opts.Silence))
	})
	return ctx, func() { timer.Reset(m.opts.Silence) }, func() { timer.Stop(); cancel(nil) }
}

// failed words why there is no answer.
func (m *Model) failed(ctx context.Context, err error) error {
	var known *capabilities.Error
	var refused *endpoint.Error
	switch {
	case errors.As(context.Cause(ctx), &known):
		return known
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &known):
		said := *known
		said.Message = m.at.Without(said.Message) // the endpoint's words may be in it
		return &said
	case errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden):
		return capabilities.Errorf(capabilities.CodeUnauthenticated, "the model's endpoint refuses the key: %s", said(refused)).
			WithHint("Give the key that this endpoint takes, or the endpoint that the key is for.")
	case errors.As(err, &refused):
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's endpoint answered %d: %s", refused.Status, said(refused)).
			WithHint("See that the endpoint's address ends where /chat/completions or /responses begins, and that it has a model of this name.")
	case errors.Is(err, endpoint.ErrTooLarge):
		return tooLong()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return brokenOff()
	case isForm(err):
		return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's endpoint wrote what is none of its API's forms").
			WithHint("See that the endpoint speaks the API that it is asked by.")
	}
	return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's endpoint cannot be asked: %s",
		capabilities.Clip(err.Error(), 300)).
		WithHint("See that the model's program runs, and that its address is right.")
}

// isForm reports whether err is of a text that has not the form of an answer.
func isForm(err error) bool {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	return errors.As(err, &syntax) || errors.As(err, &kind)
}

func said(e *endpoint.Error) string {
	if e.Message == "" {
		return http.StatusText(e.Status)
	}
	return capabilities.Clip(e.Message, 300)
}

func brokenOff() error {
	return capabilities.Errorf(capabilities.CodeExecutionFailed, "the model's answer broke off")
}

func tooLong() error {
	return capabilities.Errorf(capabilities.CodeResultTooLarge, "the model's answer has more than %d bytes", MaxAnswer)
}

func tooMany() error {
	return capabilities.Errorf(capabilities.CodeResultTooLarge, "the model's answer has more than %d calls", worker.MaxCalls)
}

// names are the functions of a turn's tools as a model sees them.
type names map[string]capabilities.ToolID

func namesOf(tools []worker.Tool) names {
	n := names{}
	for _, t := range tools {
		n[t.ID.WireName()] = t.ID
	}
	return n
}

// tool returns the tool that a model names. A name that it made up stays as it is, for the engine
// to refuse.
func (n names) tool(name string) capabilities.ToolID {
	if id, ok := n[name]; ok {
		return id
	}
	return capabilities.ToolID(capabilities.Clip(name, 128))
}

// callID names a call within one request: the n-th of the turn.
func callID(n int) string { return fmt.Sprintf("call_%d", n) }

func schemaOf(t worker.Tool) json.RawMessage {
	var schema map[string]json.RawMessage
	if json.Unmarshal(t.Input, &schema) != nil || schema == nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return t.Input
}
