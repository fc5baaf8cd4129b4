package site

import (
	"context"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
)

// Agent is an MCP client that starts the program, as clients do.
type Agent struct {
	t testing.TB
	*mcp.ClientSession
}

// Told is what an agent is told of a call.
type Told struct {
	Code    capabilities.Code // empty: it went well; "no answer" without one
	Message string
	Call    capabilities.CallID
	Output  string // the structured content
	Images  int
	Links   []*mcp.ResourceLink
}

// StartAgent runs the program's MCP bridge with a token until the test ends.
func StartAgent(t testing.TB, program string, env []string, token string) *Agent {
	t.Helper()
	bridge := exec.Command(program, "mcp")
	bridge.Env = append(slices.Clone(env), "HANDRAIL_TOKEN="+token)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "walk", Version: "1"}, nil).
		Connect(t.Context(), &mcp.CommandTransport{Command: bridge}, nil)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return &Agent{t, session}
}

// Asks makes a call and, as it is told to, repeats it while a person is waited for.
func (a *Agent) Asks(tool string, args map[string]any) <-chan Told {
	done := make(chan Told, 1)
	go func() {
		for {
			if told := a.once(tool, args); told.Code != capabilities.CodeApprovalPending {
				done <- told
				return
			}
		}
	}()
	return done
}

// Ends waits for a call's end.
func (a *Agent) Ends(what string, call <-chan Told) Told {
	a.t.Helper()
	select {
	case told := <-call:
		return told
	case <-time.After(2 * Within):
		a.t.Fatalf("%s has no result", what)
		return Told{}
	}
}

func (a *Agent) once(tool string, args map[string]any) Told {
	r, err := a.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return Told{Code: "no answer", Message: err.Error()}
	}
	text, _ := json.Marshal(r.StructuredContent)
	told := Told{Output: string(text)}
	for _, c := range r.Content {
		switch c := c.(type) {
		case *mcp.ImageContent:
			if len(c.Data) > 0 {
				told.Images++
			}
		case *mcp.ResourceLink:
			told.Links = append(told.Links, c)
		}
	}
	if !r.IsError {
		meta, _ := r.Meta["dev.handrail/call"].(map[string]any)
		id, _ := meta["call_id"].(string)
		told.Call = capabilities.CallID(id)
		return told
	}
	var body struct {
		Error struct {
			Code    capabilities.Code   `json:"code"`
			Message string              `json:"message"`
			Call    capabilities.CallID `json:"call_id"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Error.Code == "" {
		return Told{Code: "no code", Message: string(text)}
	}
	told.Code, told.Message, told.Call = body.Error.Code, body.Error.Message, body.Error.Call
	return told
}
