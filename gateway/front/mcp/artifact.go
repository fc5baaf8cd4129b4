package mcp

import (
	"context"
	"io"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	// artifactURI begins the addresses of artifacts; their ID follows.
	artifactURI = "handrail://artifact/"
	// firstLinks is the revision that has resource links.
	firstLinks = "2025-06-18"
	// maxResource is how large an artifact resources/read returns. It goes as base64 in one
	// message; larger ones come by REST.
	maxResource = 16 << 20
)

// offerArtifacts lets the view's client read the artifacts that results link to.
func (v *view) offerArtifacts() {
	v.server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "artifact", Title: "File of a call", URITemplate: artifactURI + "{id}",
		Description: "A file that a call made, such as a photo, a recording or a download. Results link to theirs.",
	}, v.readArtifact)
}

func (v *view) readArtifact(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id, ok := strings.CutPrefix(req.Params.URI, artifactURI)
	if !ok {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	k, content, err := v.s.opts.Artifacts.Open(ctx, v.who, capabilities.ArtifactID(id))
	switch capabilities.CodeOf(err) {
	case "":
	case capabilities.CodeNotFound, capabilities.CodeInvalidRequest:
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	default:
		return nil, err
	}
	defer content.Close()
	if k.Size > maxResource {
		return nil, capabilities.Errorf(capabilities.CodeResultTooLarge,
			"the file has %d bytes; at most %d are given here, so fetch it by REST: GET /v1/artifacts/%s", k.Size, maxResource, k.ID)
	}
	data := make([]byte, k.Size)
	if _, err := io.ReadFull(content, data); err != nil {
		v.s.opts.Log.Error("artifact.read", "artifact", k.ID, "err", err)
		return nil, &capabilities.Error{Code: capabilities.CodeInternal}
	}
	if post := v.s.postedOf(req.Extra); post != nil {
		post.answer.liftBlob(&data)
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: k.MIME, Blob: data}}}, nil
}

// links says whether the client knows links to resources.
func links(session *sdk.ServerSession) bool {
	if session == nil {
		return true
	}
	p := session.InitializeParams()
	return p == nil || p.ProtocolVersion >= firstLinks
}

// linkArtifacts adds the files of a result: a link to each that is there, and in
// words where the client knows no links.
func linkArtifacts(out *sdk.CallToolResult, r *capabilities.Result, linked bool) {
	for i := range r.Artifacts {
		a := &r.Artifacts[i]
		if a.Code != "" {
			continue // the error says so
		}
		if !linked {
			out.Content = append(out.Content, &sdk.TextContent{Text: "[handrail] file " + artifactURI + string(a.ID) + " (" + a.MIME + ")"})
			continue
		}
		out.Content = append(out.Content, &sdk.ResourceLink{URI: artifactURI + string(a.ID), Name: a.Name, MIMEType: a.MIME, Size: &a.Size})
	}
}
