package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/dispatch"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// heavy is a result whose parts are large, with every kind of content.
func heavy(size int) capabilities.Result {
	data := func(seed byte) []byte {
		b := make([]byte, size+int(seed))
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
		return b
	}
	text, _ := json.Marshal(map[string]string{"text": strings.Repeat("<\"\\\u2028\x01é😀 ", size/12)})
	r := fronttest.OK(string(text))
	r.Blobs = []capabilities.Blob{
		{Field: "a", MIME: "image/png", Bytes: data(1)}, {Field: "b", MIME: "audio/wav", Bytes: data(2)}, {Field: "c", MIME: "application/zip", Bytes: data(3)},
	}
	r.Untrusted = true
	return r
}

// The client gets, whatever the size of a result's parts, what it would get of the
// SDK's own encoding, in every revision, as JSON and as an event behind progress.
func TestLargeParts(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	size := 0
	f.Dispatcher.Do(fronttest.ToolText, func(_ context.Context, r dispatch.Request) capabilities.Result {
		if r.Progress != nil {
			r.Progress(capabilities.Progress{Done: 1, Total: 2})
		}
		return heavy(size)
	})
	eachRevision(t, func(t *testing.T, revision string) {
		s := connect(t, f, token, "/mcp", revision, nil)
		for _, size = range []int{0, 128 - 2, 4<<10 - 3, 48<<10 - 2, 100_000} {
			for _, progress := range []any{nil, "p"} {
				p := &sdk.CallToolParams{Name: "test_simple_text", Arguments: map[string]any{"text": "x"}}
				if progress != nil {
					p.SetProgressToken(progress)
				}
				got, err := s.CallTool(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				want := heavy(size)
				if len(got.Content) != 5 {
					t.Fatalf("%d: %d contents", size, len(got.Content))
				}
				if text := got.Content[0].(*sdk.TextContent).Text; text != string(want.Output) {
					t.Errorf("%d: another text of %d bytes", size, len(text))
				}
				image, audio, zip := got.Content[1].(*sdk.ImageContent), got.Content[2].(*sdk.AudioContent), got.Content[3].(*sdk.EmbeddedResource)
				if !bytes.Equal(image.Data, want.Blobs[0].Bytes) || !bytes.Equal(audio.Data, want.Blobs[1].Bytes) || !bytes.Equal(zip.Resource.Blob, want.Blobs[2].Bytes) || image.MIMEType != "image/png" {
					t.Errorf("%d: other bytes", size)
				}
				var structured, output struct{ Text string }
				raw, _ := json.Marshal(got.StructuredContent)
				if json.Unmarshal(raw, &structured) != nil || json.Unmarshal(want.Output, &output) != nil || structured != output {
					t.Errorf("%d: other structured content", size)
				}
			}
		}
	})
}

// A batch's answers keep their own parts, on lines as events have them.
func TestLargePartsOfABatch(t *testing.T) {
	f := start(t)
	token := f.Token("alice", principal.RoleAgent)
	f.Dispatcher.Do(fronttest.ToolText, func(_ context.Context, r dispatch.Request) capabilities.Result {
		var a struct{ Text string }
		_ = json.Unmarshal(r.Args, &a)
		out, _ := json.MarshalIndent(map[string]string{"text": strings.Repeat(a.Text, 5000)}, "", " ") // may stand on several lines
		return fronttest.OK(string(out))
	})
	session := connect(t, f, token, "/mcp", "2025-03-26", nil)
	var calls []string
	for i, text := range []string{"a", "b", "c"} {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"test_simple_text","arguments":{"text":%q}}}`, 100+i, text))
	}
	req := rawRequest(t, f, token, "/mcp", "["+strings.Join(calls, ",")+"]")
	req.Header.Set("Mcp-Session-Id", session.ID())
	req.Header.Set("Mcp-Protocol-Version", "2025-03-26")
	resp, err := f.Client(token).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	got := map[int]string{}
	for line := range strings.SplitSeq(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m struct {
			ID     int
			Result struct {
				Content           []struct{ Text string }
				StructuredContent struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			t.Fatalf("%v: %.200s", err, data)
		}
		if !strings.Contains(m.Result.Content[0].Text, m.Result.StructuredContent.Text) {
			t.Errorf("%d: the text is another's", m.ID)
		}
		got[m.ID] = m.Result.StructuredContent.Text
	}
	for i, text := range []string{"a", "b", "c"} {
		if got[100+i] != strings.Repeat(text, 5000) {
			t.Errorf("%d got %.20q…, %d bytes", 100+i, got[100+i], len(got[100+i]))
		}
	}
}

// A header that ties a call to its request is ours alone: a client cannot have its
// answer put into another's.
func TestVisitsAreOurs(t *testing.T) {
	f := start(t)
	f.Dispatcher.Do(fronttest.ToolText, func(context.Context, dispatch.Request) capabilities.Result { return heavy(9000) })
	token := f.Token("alice", principal.RoleAgent)
	for _, id := range []string{"1", "2", "3", "z"} {
		req := rawRequest(t, f, token, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_simple_text","arguments":{"text":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", "tools/call")
		req.Header.Set("Mcp-Name", "test_simple_text")
		req.Header["Handrail-Visit"] = []string{id}
		resp, err := f.Client(token).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Result struct{ Content []struct{ Data []byte } }
		}
		err = json.NewDecoder(resp.Body).Decode(&m)
		_ = resp.Body.Close()
		if err != nil || len(m.Result.Content) != 5 || !bytes.Equal(m.Result.Content[1].Data, heavy(9000).Blobs[0].Bytes) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
