package rest

import (
	"context"
	"mime"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
	"github.com/handrail-dev/handrail/gateway/front"
	"github.com/handrail-dev/handrail/gateway/outcome"
)

func (s *Server) artifacts(c *visit, _ none) (api.ArtifactList, error) {
	limit, err := c.number("limit", 100, 1000)
	if err != nil {
		return api.ArtifactList{}, err
	}
	list, err := s.opts.Artifacts.List(c.r.Context(), c.who, outcome.ArtifactQuery{
		Lane: capabilities.LaneID(c.param("lane")), Call: capabilities.CallID(c.param("call")),
		Principal: capabilities.PrincipalID(c.param("principal")), Limit: int(limit),
	})
	if err != nil {
		return api.ArtifactList{}, err
	}
	return api.ArtifactList{Artifacts: viewAll(list, front.ViewArtifact)}, nil
}

// artifact returns bytes that a device captured: a person's browser must save them and
// never take them for a page of ours.
func (s *Server) artifact(c *visit) error {
	k, content, err := s.opts.Artifacts.Open(c.r.Context(), c.who, capabilities.ArtifactID(c.r.PathValue("artifact")))
	if err != nil {
		return err
	}
	defer content.Close()
	kind := k.MIME
	if _, _, err := mime.ParseMediaType(kind); err != nil {
		kind = "application/octet-stream"
	}
	h := c.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": k.Name}))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Cache-Control", "no-store")
	h.Set("ETag", `"`+string(k.ID)+`"`)
	c.began = true
	http.ServeContent(c.w, c.r, "", k.Created, content)
	return nil
}

func (s *Server) removeArtifact(c *visit, _ none) (api.RemovedArtifact, error) {
	id := capabilities.ArtifactID(c.r.PathValue("artifact"))
	return api.RemovedArtifact{Artifact: id}, s.opts.Artifacts.Remove(c.r.Context(), c.who, id)
}

// noArtifacts is a gateway that keeps none.
type noArtifacts struct{}

func (noArtifacts) List(context.Context, outcome.ArtifactQuery) ([]outcome.Kept, error) {
	return nil, nil
}

func (noArtifacts) Open(outcome.Kept) (*outcome.Content, error) {
	return nil, &capabilities.Error{Code: capabilities.CodeNotFound}
}

func (noArtifacts) Read(context.Context, capabilities.PrincipalID, outcome.Kept) error { return nil }

func (noArtifacts) Remove(context.Context, capabilities.PrincipalID, []outcome.Kept) error {
	return nil
}
