package policy

import "github.com/handrail-dev/handrail/capabilities/catalog"

// Loader loads many sets of rules over one catalog: what they can speak about is
// worked out once. Safe for concurrent use.
type Loader struct{ v *vocabulary }

// NewLoader prepares loading over cat.
func NewLoader(cat *catalog.Catalog) (*Loader, error) {
	v, err := newVocabulary(cat)
	if err != nil {
		return nil, err
	}
	return &Loader{v}, nil
}

// Load is the function Load.
func (l *Loader) Load(sources []Source) (*Engine, error) { return l.v.load(sources) }
