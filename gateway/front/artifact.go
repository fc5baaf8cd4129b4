package front

import (
	"context"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
	"github.com/handrail-dev/handrail/gateway/outcome"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// ArtifactStore keeps artifacts; gateway/outcome does, with the ledger beside it.
type ArtifactStore interface {
	List(context.Context, outcome.ArtifactQuery) ([]outcome.Kept, error)
	Open(outcome.Kept) (*outcome.Content, error)
	// Read records durably that somebody is about to get the bytes.
	Read(ctx context.Context, by capabilities.PrincipalID, k outcome.Kept) error
	// Remove removes them, recorded in the same commit.
	Remove(ctx context.Context, by capabilities.PrincipalID, list []outcome.Kept) error
}

// Artifacts is who may have which artifact, for every surface. A principal has its own, for as long
// as policy lets it use the tool that made them; operators have everybody's. An artifact that a
// caller may not have does not exist for it.
type Artifacts struct {
	Store ArtifactStore
	Tools Dispatcher
}

// List returns those that who may have, the newest first.
func (a *Artifacts) List(ctx context.Context, who principal.Identity, q outcome.ArtifactQuery) ([]outcome.Kept, error) {
	if err := who.Require(principal.ActReadArtifacts); err != nil {
		return nil, err
	}
	all := who.May(principal.ActReadAllArtifacts)
	if !all {
		if q.Principal != "" && q.Principal != who.Principal {
			return nil, who.Require(principal.ActReadAllArtifacts)
		}
		q.Principal = who.Principal
	}
	list, err := a.Store.List(ctx, q)
	if err != nil || all {
		return list, err
	}
	visible := map[capabilities.LaneID][]*catalog.Descriptor{}
	return slices.DeleteFunc(list, func(k outcome.Kept) bool {
		tools, ok := visible[k.Lane]
		if !ok {
			tools = a.Tools.Visible(ctx, Caller(who, k.Lane))
			visible[k.Lane] = tools
		}
		return !slices.ContainsFunc(tools, func(d *catalog.Descriptor) bool { return d.Tool == k.Tool })
	}), nil
}

// find returns those with that ID that who may have; CodeNotFound if there are none.
func (a *Artifacts) find(ctx context.Context, who principal.Identity, id capabilities.ArtifactID) ([]outcome.Kept, error) {
	if _, err := id.Sum(); err != nil {
		return nil, err
	}
	list, err := a.List(ctx, who, outcome.ArtifactQuery{ID: id})
	if err == nil && len(list) == 0 {
		err = capabilities.Errorf(capabilities.CodeNotFound, "there is no such file, or not any more").
			WithAction(capabilities.Action{Key: capabilities.ActionListArtifacts}, "Files are kept for a limited time.")
	}
	return list, err
}

// Open returns an artifact and its bytes, once that is recorded.
func (a *Artifacts) Open(ctx context.Context, who principal.Identity, id capabilities.ArtifactID) (outcome.Kept, *outcome.Content, error) {
	list, err := a.find(ctx, who, id)
	if err != nil {
		return outcome.Kept{}, nil, err
	}
	k := list[0]
	content, err := a.Store.Open(k)
	if err != nil {
		return k, nil, err
	}
	if err := a.Store.Read(ctx, who.Principal, k); err != nil {
		_ = content.Close()
		return k, nil, err
	}
	return k, content, nil
}

// Remove removes an artifact, from every call that made it and that who may have.
func (a *Artifacts) Remove(ctx context.Context, who principal.Identity, id capabilities.ArtifactID) error {
	if err := who.Require(principal.ActRemoveArtifacts); err != nil {
		return err
	}
	list, err := a.find(ctx, who, id)
	if err != nil {
		return err
	}
	return a.Store.Remove(ctx, who.Principal, list)
}
