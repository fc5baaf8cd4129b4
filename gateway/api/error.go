package api

import "github.com/handrail-dev/handrail/capabilities"

// Error is what an answer that is no success has as its "error".
type Error struct {
	Code    capabilities.Code `json:"code"`
	Message string            `json:"message"`
	Hint    string            `json:"hint,omitempty"` // in the words of the command line
	// Action is what Hint asks for, for surfaces that have words of their own.
	Action    capabilities.Action `json:"action,omitzero"`
	Retryable bool                `json:"retryable"`
	Details   any                 `json:"details,omitempty"`
}

// Err returns the error itself, without the words of the command line.
func (v *Error) Err() *capabilities.Error {
	e := &capabilities.Error{Code: v.Code, Message: v.Message, Details: v.Details}
	e.Hint, e.Action = v.Action.Unworded(v.Hint)
	return e
}

// Failed is the body of every answer that is an error.
type Failed struct {
	Error Error `json:"error"`
}
