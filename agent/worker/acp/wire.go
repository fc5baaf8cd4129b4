package acp

import (
	"encoding/json"

	"github.com/handrail-dev/handrail/capabilities"
)

// Version is the version of the protocol that is spoken.
const Version = 1

// Codes of JSON-RPC's errors.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32002 // the resource, such as a session
)

// message is any message of JSON-RPC.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

// received is a message as it is read.
type received struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *fault          `json:"error"`
}

// asked reports whether it wants an answer.
func (r *received) asked() bool { return len(r.ID) > 0 && string(r.ID) != "null" }

// fault is an error of JSON-RPC.
type fault struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *faultData `json:"data,omitempty"`
}

// faultData is what this program knows of an error.
type faultData struct {
	Code capabilities.Code `json:"code"`
	Hint string            `json:"hint,omitempty"`
}

// faultOf is an error for the editor: its code, its public words and what can be done.
func faultOf(err error) *fault {
	e := capabilities.AsError(err)
	return &fault{Code: codeInternal, Message: capabilities.Printable(err.Error()), Data: &faultData{e.Code, e.Hint}}
}

type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

type empty struct{}

type initialized struct {
	ProtocolVersion   int             `json:"protocolVersion"`
	AgentCapabilities abilities       `json:"agentCapabilities"`
	AuthMethods       []empty         `json:"authMethods"`
	AgentInfo         *implementation `json:"agentInfo"`
}

type abilities struct {
	LoadSession         bool             `json:"loadSession"`
	PromptCapabilities  promptAbilities  `json:"promptCapabilities"`
	SessionCapabilities sessionAbilities `json:"sessionCapabilities"`
}

type promptAbilities struct {
	Image           bool `json:"image"`
	Audio           bool `json:"audio"`
	EmbeddedContext bool `json:"embeddedContext"`
}

type sessionAbilities struct {
	Close empty `json:"close"`
}

type newSession struct {
	CWD        string            `json:"cwd"`
	MCPServers []json.RawMessage `json:"mcpServers"`
}

type sessionID struct {
	Session string `json:"sessionId"`
}

type prompt struct {
	Session string    `json:"sessionId"`
	Prompt  []content `json:"prompt"`
}

// content is a block of a message.
type content struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	URI  string `json:"uri,omitempty"`
	Name string `json:"name,omitempty"`
}

type prompted struct {
	Stop string `json:"stopReason"`
}

// Reasons for the end of a prompt.
const (
	stopEnd       = "end_turn"
	stopBound     = "max_turn_requests"
	stopCancelled = "cancelled"
)

type cancelRequest struct {
	Request json.RawMessage `json:"requestId"`
}

// notification is the parameters of session/update.
type notification struct {
	Session string `json:"sessionId"`
	Update  any    `json:"update"`
}

// chunk is words of the worker.
type chunk struct {
	Update  string  `json:"sessionUpdate"`
	Content content `json:"content"`
}

// toolCall is a call that begins, or news of one.
type toolCall struct {
	Update  string            `json:"sessionUpdate,omitempty"`
	ID      string            `json:"toolCallId"`
	Title   string            `json:"title,omitempty"`
	Kind    string            `json:"kind,omitempty"`
	Status  string            `json:"status,omitempty"`
	Content []toolCallContent `json:"content,omitempty"`
	Input   any               `json:"rawInput,omitempty"`
}

type toolCallContent struct {
	Type    string  `json:"type"`
	Content content `json:"content"`
}

// Statuses of a call.
const (
	callRuns   = "in_progress"
	callEnded  = "completed"
	callFailed = "failed"
)

type askPermission struct {
	Session string   `json:"sessionId"`
	Call    toolCall `json:"toolCall"`
	Options []option `json:"options"`
}

type option struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type permission struct {
	Outcome struct {
		Outcome string `json:"outcome"`
		Option  string `json:"optionId"`
	} `json:"outcome"`
}
