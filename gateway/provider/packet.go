package provider

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// partBytes bounds the tools of one packet, as JSON: the ledger takes 16 KiB in all.
const partBytes = 12 << 10

// toolPacket is what the ledger has of a tool: no word of its own.
type toolPacket struct {
	Tool     capabilities.ToolID        `json:"tool"`
	State    State                      `json:"state"`
	Hash     string                     `json:"hash"`
	Approved string                     `json:"approved"`
	Effect   string                     `json:"effect"`
	Canary   []capabilities.PrincipalID `json:"canary,omitempty"`
}

func (t *Tool) packet() toolPacket {
	return toolPacket{t.Described.Tool, t.State, t.Hash, t.Approved, t.Effect, t.Canary}
}

func (t toolPacket) equal(o toolPacket) bool {
	return t.State == o.State && t.Hash == o.Hash && t.Approved == o.Approved && t.Effect == o.Effect && slices.Equal(t.Canary, o.Canary)
}

// change is what the ledger has of a change of a provider, or a part of it.
type change struct {
	Provider string                `json:"provider"`
	Kind     tools.Kind            `json:"kind"`
	Host     capabilities.NodeID   `json:"host"`
	Manifest string                `json:"manifest_hash"`
	Of       int                   `json:"of"`      // tools that it has
	Refused  int                   `json:"refused"` // that it cannot have
	Tools    []toolPacket          `json:"tools"`   // that are another, as they are now
	Gone     []capabilities.ToolID `json:"gone"`
	Part     int                   `json:"part"` // from 1
	Parts    int                   `json:"parts"`
}

// packets are what the ledger has of a change of a provider. A change that is too much for one is
// in several, in the order of the tools; all of them stand in one commit.
func (p *Provider) packets(before *Provider) []*change {
	was := make(map[capabilities.ToolID]toolPacket, len(before.Tools))
	for i := range before.Tools {
		t := before.Tools[i].packet()
		was[t.Tool] = t
	}
	var parts []*change
	var last *change
	size := 0
	room := func(of any) {
		text, _ := json.Marshal(of) // names and hashes: never fails
		if size += len(text); last == nil || size > partBytes {
			size = len(text)
			last = &change{
				Provider: p.Name, Kind: p.Kind, Host: p.Host, Manifest: p.Hash, Of: len(p.Tools), Refused: len(p.Refused),
				Tools: []toolPacket{}, Gone: []capabilities.ToolID{}, Part: len(parts) + 1,
			}
			parts = append(parts, last)
		}
	}
	room(nil) // where no tool is another, something else is
	for i := range p.Tools {
		now := p.Tools[i].packet()
		then, there := was[now.Tool]
		delete(was, now.Tool)
		if !there || !now.equal(then) {
			room(now)
			last.Tools = append(last.Tools, now)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(was)) {
		room(id)
		last.Gone = append(last.Gone, id)
	}
	for _, c := range parts {
		c.Parts = len(parts)
	}
	return parts
}
