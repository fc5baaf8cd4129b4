package mcp_test

import (
	"bytes"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front/fronttest"
	"github.com/handrail-dev/handrail/gateway/front/mcp"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// A file is read by the address that results link to, by whoever may have it.
func TestReadArtifact(t *testing.T) {
	f := fronttest.Prepare(t)
	files := f.Artifacts()
	s, err := mcp.New(mcp.Options{
		Dispatcher: f.Dispatcher, Tools: f.Dispatcher.Catalog, Lanes: f.Lanes, Tokens: f.Tokens, Artifacts: files, Version: "1.2.3", Log: f.Log, Now: f.Clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Start(s)
	data := bytes.Repeat([]byte("what the camera saw"), 9000) // more than goes through the SDK's encoding
	mine := f.MustKeep(files, outcome.Kept{Artifact: capabilities.Artifact{Name: "a.jpg", MIME: "image/jpeg"}, Call: "c1", Principal: "alice", Lane: "alice", Tool: "test.simple-text"}, data)
	theirs := f.MustKeep(files, outcome.Kept{Artifact: capabilities.Artifact{Name: "b.jpg", MIME: "image/jpeg"}, Call: "c2", Principal: "bob", Lane: "bob", Tool: "test.simple-text"}, []byte("bob's"))
	token := f.Token("alice", principal.RoleAgent)
	eachRevision(t, func(t *testing.T, revision string) {
		c := connect(t, f, token, "/mcp", revision, nil)
		got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "handrail://artifact/" + string(mine)})
		if err != nil || len(got.Contents) != 1 || got.Contents[0].MIMEType != "image/jpeg" || !bytes.Equal(got.Contents[0].Blob, data) {
			t.Errorf("%+v, %v", got, err)
		}
		for _, uri := range []string{"handrail://artifact/" + string(theirs), "handrail://artifact/x", "handrail://artifact/" + string(capabilities.ArtifactIDOf([32]byte{}))} {
			if got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
				t.Errorf("%s gives %+v", uri, got)
			}
		}
	})
}
