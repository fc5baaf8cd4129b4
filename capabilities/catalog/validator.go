package catalog

import (
	"crypto/sha256"
	"sync"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// maxCompiled is how many compiled schemas a process holds: those of some 250 tools. One is tens
// of kilobytes, and compiling it again takes a fraction of a millisecond.
const maxCompiled = 512

// validator is one schema of a descriptor. It is compiled when the first value is checked, by the
// call that brings it, and held while it is among the last that were compiled.
type validator struct {
	name string // "input" or "result"
	text []byte // canonical
	key  schemaKey
}

func newValidator(name string, doc canonical.Value, open bool) validator {
	text := doc.Append(nil)
	return validator{name: name, text: text, key: schemaKey{sha256.Sum256(text), open}}
}

// schema returns it compiled; d is for the error.
func (v *validator) schema(d *Descriptor) (*schema, error) {
	s, err := held.get(v.key, v.text)
	if err != nil {
		return nil, refuse(d, "%s: %v", v.name, err)
	}
	return s, nil
}

// schemaKey says what a compiled schema was made of. Tools with the same schema share it: most
// results of providers are alike.
type schemaKey struct {
	text [sha256.Size]byte
	open bool
}

// held is the process's compiled schemas. It is no state that anybody sees: without it all would
// be the same, and slower.
var held = &schemas{most: maxCompiled, all: map[schemaKey]func() (*schema, error){}}

// schemas is a bounded set of compiled schemas, the oldest of which goes first. Safe for concurrent
// use.
type schemas struct {
	most int

	mu   sync.Mutex
	all  map[schemaKey]func() (*schema, error)
	ring []schemaKey // in the order in which they came, from next on
	next int
}

// get compiles a schema once, however many calls wait for it.
func (s *schemas) get(key schemaKey, text []byte) (*schema, error) {
	s.mu.Lock()
	compile, ok := s.all[key]
	if !ok {
		compile = sync.OnceValues(func() (*schema, error) {
			doc, err := canonical.Decode(text, canonical.Limits{})
			if err != nil {
				return nil, err
			}
			return compileSchema(doc, key.open)
		})
		s.all[key] = compile
		if len(s.ring) < s.most {
			s.ring = append(s.ring, key)
		} else {
			delete(s.all, s.ring[s.next])
			s.ring[s.next] = key
			s.next = (s.next + 1) % s.most
		}
	}
	s.mu.Unlock()
	return compile()
}
