package policy

import "github.com/handrail-dev/handrail/capabilities/catalog"

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
