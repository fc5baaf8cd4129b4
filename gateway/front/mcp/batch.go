package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front"
)

// unbatched refuses a JSON-RPC batch that holds a call of a privileged tool, as a whole
// (S1-23): each of those is asked about and answered by itself. The first of them is recorded as
// refused, and so is a batch that is no JSON, without a tool (S4-43). Anything else passes on,
// with its body as it came. A batch is an array; only revision 2025-03-26 has them.
func (v *view) unbatched(r *http.Request) error {
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	first, err := firstByte(body)
	if err != nil || first != '[' {
		return nil // what is no JSON, or none at all, is refused where it is read
	}
	data, err := io.ReadAll(io.LimitReader(body, front.MaxBody+1))
	if err != nil {
		return front.BodyError(err)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), body), r.Body}
	refuse := func(tool capabilities.ToolID, no *capabilities.Error) error {
		v.s.opts.Dispatcher.Refuse(r.Context(), dispatch.Request{Caller: v.caller, Tool: tool, Surface: "mcp", Token: v.who.TokenID}, no)
		return no
	}
	batch, err := canonical.Decode(data, canonical.Limits{}) // no member twice: no reader finds another call in it
	if err != nil {                                          // nobody knows what it calls
		return refuse("", capabilities.AsError(err))
	}
	for _, message := range batch.Items {
		for _, name := range called(message) {
			if d, ok := v.resolve(name); ok && len(d.Manifest.Privileged) > 0 {
				return refuse(d.Tool, capabilities.Errorf(capabilities.CodeInvalidRequest,
					"%s is privileged, so no batch may hold a call of it; nothing of the batch was done", d.Tool).
					WithHint("Send each call as a request of its own."))
			}
		}
	}
	return nil
}

// firstByte is the first byte of the body that is no white space; it stays in the reader.
func firstByte(body *bufio.Reader) (byte, error) {
	for {
		b, err := body.ReadByte()
		if err != nil {
			return 0, err
		}
		if !strings.ContainsRune(" \t\r\n", rune(b)) {
			return b, body.UnreadByte()
		}
	}
}

// called returns every name under which a message may call a tool, whatever the case of its
// members.
func called(message canonical.Value) (names []string) {
	for _, m := range message.Members {
		if !strings.EqualFold(m.Key, "params") {
			continue
		}
		for _, p := range m.Value.Members {
			if strings.EqualFold(p.Key, "name") {
				names = append(names, p.Value.Str)
			}
		}
	}
	return names
}

// writeRefusal answers a POST that is refused as a whole.
func writeRefusal(w http.ResponseWriter, err error) {
	view := front.ViewError(err)
	view.Hint = worded(view.Action.Unworded(view.Hint))
	data, failed := json.Marshal(view)
	if failed != nil {
		data = nil
	}
	body, failed := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": nil,
		"error": &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: strings.TrimSpace(view.Message + " " + view.Hint), Data: data},
	})
	if failed != nil {
		front.WriteError(w, errors.Join(err, failed))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // the client went away: there is nobody to tell
}
