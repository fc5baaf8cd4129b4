package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
)

// Options say where the gateway is, as whom to call, and what to try.
type Options struct {
	// URL is the gateway's MCP endpoint, such as "http://127.0.0.1:7480/mcp".
	// Required.
	URL string
	// Token is an agent's. Required.
	Token string
	// ReadToken may read the ledger, for the hops in traces. Default: Token.
	ReadToken string
	// Way carries requests to the gateway. Default: http.DefaultTransport.
	Way http.RoundTripper
	// Behaviours are run, chosen from the suite's All. Required.
	Behaviours []*Behaviour
	// Name begins the lanes' names: two suites on one gateway must differ in it.
	// Default: "suite".
	Name string
	// Open opens a conversation with other tools than a gateway's, which carry the same calls out.
	// URL and Token are then not required. Default: none.
	Open func(ctx context.Context, name string) (Tools, error)
	// Called is told each call and the ID of its behaviour. Default: nobody is.
	Called func(id string, c *Call)
	// Done is told each outcome as it is known, one at a time.
	Done func(Outcome)
}

// Tools carry out calls in a way of their own. One conversation makes one call at a time.
type Tools interface {
	// Call carries out one call of a tool of the suite's family. The error is one of the way.
	Call(ctx context.Context, tool string, args map[string]any) (*Call, error)
	Close() error
}

// Complete fills the defaults in and says what is missing.
func (o *Options) Complete() error {
	if (o.URL == "" || o.Token == "") && o.Open == nil || len(o.Behaviours) == 0 {
		return errors.New("suite: URL, Token and Behaviours are required")
	}
	if _, err := url.Parse(o.URL); err != nil {
		return err
	}
	if o.ReadToken == "" {
		o.ReadToken = o.Token
	}
	if o.Name == "" {
		o.Name = "suite"
	}
	if o.Called == nil {
		o.Called = func(string, *Call) {}
	}
	if o.Done == nil {
		o.Done = func(Outcome) {}
	}
	return nil
}

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
	Text     string // what a model reads of the answer
	Effect   capabilities.Effect
	Evidence string
	Code     capabilities.Code // "" if it succeeded
	Message  string
	Hint     string
	Details  any
}

// Err returns why the call failed; nil if it did not.
func (c *Call) Err() error {
	if c.Code == "" {
		return nil
	}
	return &capabilities.Error{Code: c.Code, Message: c.Message, Hint: c.Hint, Details: c.Details}
}

// End says how the call ended.
func (c *Call) End() string {
	if c.Code == "" {
		return "a result " + Brief(c.Result)
	}
	return string(c.Code) + " (" + c.Message + ")"
}

// Lane is one conversation with the gateway.
type Lane struct {
	Name    string
	family  string // of the tools, such as "browser"
	session *mcp.ClientSession
	other   Tools // instead of a session
}

// Dial opens a conversation in a lane of that name, for the tools of a family.
func Dial(ctx context.Context, o Options, name, family string) (*Lane, error) {
	if o.Open != nil {
		other, err := o.Open(ctx, name)
		return &Lane{Name: name, family: family, other: other}, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "handrail-suite", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: strings.TrimSuffix(o.URL, "/") + "/l/" + name, HTTPClient: &http.Client{Transport: bearer{o.Token, o.Way}},
		DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: 128 << 20,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("no MCP conversation with %s: %w", o.URL, err)
	}
	return &Lane{Name: name, family: family, session: session}, nil
}

// Call makes one call. The error is one of the way, not of the tool.
func (l *Lane) Call(ctx context.Context, tool string, args map[string]any) (*Call, error) {
	if args == nil {
		args = map[string]any{}
	}
	if l.other != nil {
		c, err := l.other.Call(ctx, tool, args)
		if c != nil {
			c.Lane = l.Name
		}
		return c, err
	}
	c := &Call{Lane: l.Name, Tool: tool, Args: args, Sent: time.Now()}
	r, err := l.session.CallTool(ctx,
		&mcp.CallToolParams{Name: "tool_" + l.family + "_" + strings.ReplaceAll(tool, "-", "_"), Arguments: args})
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
	for _, content := range r.Content {
		if x, ok := content.(*mcp.TextContent); ok {
			c.Text += x.Text
		}
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

// Close ends the conversation.
func (l *Lane) Close() error {
	if l.other != nil {
		return l.other.Close()
	}
	return l.session.Close()
}

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
