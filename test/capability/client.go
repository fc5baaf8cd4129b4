package capability

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
)

// metaCall is the key under which a result says what is known about its call.
const metaCall = "dev.handrail/call"

// Call is one tool call and what came of it.
type Call struct {
	Lane     string
	Tool     string
	Args     map[string]any
	Sent     time.Time
	Answered time.Time
	ID       capabilities.CallID
	Node     capabilities.NodeID
	Result   map[string]any // nil if it failed
	Blob     []byte         // the last captured bytes of the result
	MIME     string
	Effect   capabilities.Effect
	Evidence string
	Code     capabilities.Code // "" if it succeeded
	Message  string
	Hint     string
	Details  any
}

// Err gives why the call failed; nil if it did not.
func (c *Call) Err() error {
	if c.Code == "" {
		return nil
	}
	return &capabilities.Error{Code: c.Code, Message: c.Message, Hint: c.Hint, Details: c.Details}
}

// lane is one conversation with the gateway.
type lane struct {
	name    string
	family  string // of the tools, such as "browser"
	session *mcp.ClientSession
}

// dial opens a conversation in a lane of its own.
func dial(ctx context.Context, o Options, name string) (*lane, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "handrail-suite", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: strings.TrimSuffix(o.URL, "/") + "/l/" + name, HTTPClient: &http.Client{Transport: bearer{o.Token, o.Way}},
		DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: 128 << 20,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("no MCP conversation with %s: %w", o.URL, err)
	}
	return &lane{name, "browser", session}, nil
}

// call makes one call. The error is one of the way, not of the tool.
func (l *lane) call(ctx context.Context, tool string, args map[string]any) (*Call, error) {
	if args == nil {
		args = map[string]any{}
	}
	c := &Call{Lane: l.name, Tool: tool, Args: args, Sent: time.Now()}
	r, err := l.session.CallTool(ctx, &mcp.CallToolParams{Name: "tool_" + l.family + "_" + strings.ReplaceAll(tool, "-", "_"), Arguments: args})
	c.Answered = time.Now()
	if err != nil {
		return c, err
	}
	var about struct {
		Call     capabilities.CallID   `json:"call_id"`
		Routing  *capabilities.Routing `json:"routing"`
		Effect   capabilities.Effect   `json:"effect"`
		Evidence string                `json:"evidence"`
	}
	if err := remarshal(r.Meta[metaCall], &about); err != nil {
		return c, err
	}
	c.ID, c.Effect, c.Evidence = about.Call, about.Effect, about.Evidence
	if about.Routing != nil {
		c.Node = about.Routing.Selected
	}
	if r.IsError {
		var body struct {
			Error struct {
				Code    capabilities.Code `json:"code"`
				Message string            `json:"message"`
				Hint    string            `json:"hint"`
				Details any               `json:"details"`
			} `json:"error"`
		}
		if err := remarshal(r.StructuredContent, &body); err != nil {
			return c, err
		}
		if c.Code = body.Error.Code; c.Code == "" {
			c.Code = capabilities.CodeInternal
		}
		c.Message, c.Hint, c.Details = body.Error.Message, body.Error.Hint, body.Error.Details
		return c, nil
	}
	c.Result = map[string]any{}
	if err := remarshal(r.StructuredContent, &c.Result); err != nil {
		return c, err
	}
	for _, content := range r.Content {
		switch x := content.(type) {
		case *mcp.ImageContent:
			c.Blob, c.MIME = x.Data, x.MIMEType
		case *mcp.EmbeddedResource:
			if x.Resource != nil {
				c.Blob, c.MIME = x.Resource.Blob, x.Resource.MIMEType
			}
		}
	}
	return c, nil
}

// Lane is a conversation for the suite of another family.
type Lane struct{ l *lane }

// Dial opens a conversation in a lane of that name, for the tools of a family.
func Dial(ctx context.Context, o Options, name, family string) (*Lane, error) {
	l, err := dial(ctx, o, name)
	if err != nil {
		return nil, err
	}
	l.family = family
	return &Lane{l}, nil
}

// Call makes one call. The error is one of the way, not of the tool.
func (l *Lane) Call(ctx context.Context, tool string, args map[string]any) (*Call, error) {
	return l.l.call(ctx, tool, args)
}

// Close ends the conversation.
func (l *Lane) Close() error { return l.l.session.Close() }

func remarshal(from, into any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// bearer adds the token to every request of a client.
type bearer struct {
	token string
	way   http.RoundTripper // nil: http.DefaultTransport
}

// RoundTrip sends one request.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	if b.way == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return b.way.RoundTrip(r)
}
