package satellite

import (
	"slices"
	"sync"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// refusals are what one call tried and was kept from.
type refusals struct {
	mu   sync.Mutex // above what follows
	list []remote.Refused
}

// others stands for what is too much to be told apart.
const others = "others"

// add counts one. Those beyond the bound are one, under the key of the first of them.
func (r *refusals) add(key, detail string, among ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var calls []capabilities.CallID
	for _, one := range among[:min(len(among), 16)] {
		calls = append(calls, capabilities.CallID(one))
	}
	detail = capabilities.Clip(capabilities.Printable(detail), 253)
	for i := range r.list {
		f := &r.list[i]
		if f.Key == key && f.Detail == detail && slices.Equal(f.Among, calls) || i == remote.MaxRefused-1 {
			f.Count++
			return
		}
	}
	if len(r.list) == remote.MaxRefused-1 {
		detail = others
	}
	r.list = append(r.list, remote.Refused{Key: key, Detail: detail, Count: 1, Among: calls})
}

func (r *refusals) all() []remote.Refused {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]remote.Refused(nil), r.list...)
}
