package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Health asks whether the gateway runs and, with a token, which one it is. It needs none.
func (c *Client) Health(ctx context.Context) (api.Health, error) {
	return get[api.Health](ctx, c, "/healthz")
}

// Call is a tool to call.
type Call struct {
	Tool capabilities.ToolID
	Args any                 // an object; nil: none
	Lane capabilities.LaneID // default: the token's
	// RequestID makes a retry recognisable: what has this ID is carried out once.
	RequestID capabilities.RequestID
	// Shown are the keys of the controls that a person made it by, such as ui.input.file_upload: the
	// call is denied unless it is granted each.
	Shown []string
}

// Call calls a tool. Once the pipeline is reached the answer is a result, whatever
// came of it: look at Status. A pending one waits for a person; the identical call
// joins it. A result that is not ok can be made an error with ResultError.
func (c *Client) Call(ctx context.Context, call Call) (capabilities.Result, error) {
	args, err := arguments(call.Args)
	if err != nil {
		return capabilities.Result{}, err
	}
	in := api.MakeCall{Tool: call.Tool, Args: args, Lane: call.Lane, RequestID: call.RequestID, Shown: call.Shown}
	r, err := do[capabilities.Result](ctx, c, http.MethodPost, Path("calls"), in)
	if err != nil {
		return r, err
	}
	return r, takeBlobs(&r)
}

// arguments returns the JSON of a call's arguments; nil for none.
func arguments(args any) (json.RawMessage, error) {
	if args == nil {
		return nil, nil
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "the arguments cannot be written as JSON")
	}
	return text, nil
}

// takeBlobs turns base64 in the output into the bytes of the blobs it stands for;
// the output stays as it is.
func takeBlobs(r *capabilities.Result) error {
	if len(r.Blobs) == 0 {
		return nil
	}
	var output map[string]json.RawMessage
	if err := json.Unmarshal(r.Output, &output); err != nil {
		return fmt.Errorf("the result is not a JSON object: %w", err)
	}
	for i := range r.Blobs {
		var text string
		if json.Unmarshal(output[r.Blobs[i].Field], &text) != nil {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("the bytes in %q do not decode: %w", r.Blobs[i].Field, err)
		}
		r.Blobs[i].Bytes = data
	}
	return nil
}

// ResultError is nil for a call that did what was asked, and else its refusal or
// failure with its code.
func ResultError(r capabilities.Result) error {
	if r.Status == capabilities.StatusOK {
		return nil
	}
	err := &capabilities.Error{Code: r.Code, Message: r.Message, Details: r.Details}
	err.Hint, err.Action = r.Action.Unworded(r.Hint)
	if err.Code == "" {
		err.Code = capabilities.CodeInternal
	}
	return err
}

// Tools lists what the caller may use now in a lane; "" is the token's.
func (c *Client) Tools(ctx context.Context, lane capabilities.LaneID) ([]api.Tool, error) {
	list, err := get[api.ToolList](ctx, c, Query(Path("tools"), "lane", string(lane)))
	return list.Tools, err
}

// Tool returns one of the tools that the caller may use now in a lane; "" is the token's.
func (c *Client) Tool(ctx context.Context, lane capabilities.LaneID, tool capabilities.ToolID) (api.Tool, error) {
	return get[api.Tool](ctx, c, Query(Path("tools", string(tool)), "lane", string(lane)))
}

// Calls lists the newest calls first: the caller's own or, for operators,
// everybody's. limit is at most 200; 0 is the gateway's default.
func (c *Client) Calls(ctx context.Context, limit int) ([]api.Call, error) {
	list, err := get[api.CallList](ctx, c, Query(Path("calls"), "limit", number(limit)))
	return list.Calls, err
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
