package provider

import (
	"path/filepath"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// A program that writes a folder replaces what lies in it by links. So no folder of a provider lies
// in one that a provider writes, and each leads where it led when the provider was added: what a
// person approved is a place, not a name.

// nested refuses a folder of a provider that lies in one that the writer may write.
func nested(writer, p *tools.Provider) error {
	for _, outer := range writer.Write {
		for _, dir := range slices.Concat(p.Read, p.Write) {
			if !liesIn(outer, dir) {
				continue
			}
			return capabilities.Errorf(capabilities.CodeForbidden,
				"the folder %.200q of the provider %s lies in %.200q, which the provider %s may write: a link could take its place", dir, p.Name, outer,
				writer.Name).
				WithHint("Name the outer folder alone, or folders that do not lie in each other.")
		}
	}
	return nil
}

// liesIn reports whether a path lies in a folder and is not the folder itself, by its name or by
// where it leads.
func liesIn(outer, path string) bool {
	if rel, err := filepath.Rel(outer, path); err == nil && rel != "." && filepath.IsLocal(rel) {
		return true
	}
	return folder.Holds(outer, path) && !folder.Holds(path, outer)
}

// realOf returns where the folders of a provider lead: as was known, and now for the others.
func realOf(p *tools.Provider, known map[string]string) map[string]string {
	real := map[string]string{}
	for _, dir := range slices.Concat(p.Read, p.Write) {
		if at, ok := known[dir]; ok {
			real[dir] = at
		} else {
			real[dir] = folder.Real(dir)
		}
	}
	return real
}

// moved refuses a provider whose folders lead elsewhere than they did.
func moved(p *tools.Provider, real map[string]string) error {
	for _, dir := range slices.Concat(p.Read, p.Write) {
		if folder.Real(dir) != real[dir] {
			return capabilities.Errorf(capabilities.CodeForbidden, "%.200q leads to another folder than when the provider %s was added", dir,
				p.Name).
				WithAction(capabilities.Action{
					Key: capabilities.ActionRemoveProvider, Name: p.Name,
				}, "Put the folder back in its place, or remove the provider and add it again.")
		}
	}
	return nil
}

// placesLocked returns where the folders of a provider lead that is added or asked again. It
// refuses one whose folders and the others' do not lie apart; one that was there keeps the places
// it was added with.
func (h *Host) placesLocked(p *tools.Provider) (real map[string]string, err error) {
	var known map[string]string
	for name, o := range h.providers {
		if name == p.Name {
			known = o.real
			continue
		}
		if err := nested(&o.record, p); err != nil {
			return nil, err
		}
		if err := nested(p, &o.record); err != nil {
			return nil, err
		}
	}
	real = realOf(p, known)
	return real, moved(p, real)
}
