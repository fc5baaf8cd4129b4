// Package model is the harness that asks a model: any endpoint that speaks OpenAI's Chat
// Completions or Responses, as llama.cpp, Ollama and vLLM do. It also asks the model for the intent
// of a message, without tools (S2-14).
//
// Promises: the model sees the tools of the turn and no other; its answers are input, so a call of
// something else is handed on for the engine to refuse. The words of people, of calls and of memory
// are told apart, and only the person's are said to be instructions. An answer that breaks off is
// an error, never half an answer. The key is sent to the endpoint alone, and by TLS unless the
// endpoint is on this machine.
//
// It must never import the gateway, a handler, or anything that calls a tool.
package model
