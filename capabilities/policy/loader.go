package policy

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog"
)

// Tools are what rules can speak about: a node's catalog, or a gateway's registry as it
// stands. It is read once, when rules are loaded.
type Tools interface {
	All() []*catalog.Descriptor
}

// Loader loads many sets of rules over the same tools: what they can speak about is
// worked out once. Safe for concurrent use.
type Loader struct{ v *vocabulary }

// NewLoader prepares loading over tools.
func NewLoader(tools Tools) (*Loader, error) {
	v, err := newVocabulary(tools)
	if err != nil {
		return nil, err
	}
	return &Loader{v}, nil
}

// Load is the function Load.
func (l *Loader) Load(sources []Source) (*Engine, error) { return l.v.load(sources) }

// LoadPast loads rules of another time. A tool that is gone is known to them by what former says of
// it; one that only they name by its name alone, in the groups that a name tells. It is for judging
// again what was judged by them; nothing is put in force so.
func (l *Loader) LoadPast(sources []Source, former ...*catalog.Descriptor) (*Engine, error) {
	gone := map[capabilities.ToolID]*catalog.Descriptor{}
	for _, d := range former {
		if l.v.tools[d.Tool] == nil {
			gone[d.Tool] = d
		}
	}
	for _, s := range sources {
		for _, m := range namedAction.FindAllSubmatch(s.Data, -1) {
			id := capabilities.ToolID(m[1])
			if l.v.tools[id] != nil || gone[id] != nil || l.v.surfaces[string(id)] != nil {
				continue
			}
			if strings.HasPrefix(string(id), "tool.") && id.Validate() == nil {
				gone[id] = &catalog.Descriptor{
					Tool: id, Provider: id.Family(), SideEffects: catalog.EffectsExternal, Routing: catalog.Routing{Target: catalog.TargetNode},
				}
			}
		}
	}
	if len(gone) == 0 {
		return l.Load(sources)
	}
	v, err := l.v.with(gone)
	if err != nil {
		return nil, err
	}
	return v.load(sources)
}
