package catalog

import (
	"slices"

	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Reach says that an argument names what a call reaches: people are told of it, and scopes of
// grants are held against it.
type Reach struct {
	Arg  string    `json:"arg"` // a pointer of Evidence.Args; a text, or a list of texts
	Kind ReachKind `json:"kind"`
	// Closed is what to do about an address that no rule opens; only of ReachAddress.
	Closed *Closed `json:"closed,omitempty"`
}

// ReachKind is what an argument names.
type ReachKind string

// The kinds.
const (
	ReachAddress ReachKind = "address" // a URL
	ReachApp     ReachKind = "app"     // an application
	ReachPath    ReachKind = "path"    // files of the node
)

// Closed holds the hints about closed addresses. "{origin}" stands for the address's origin.
type Closed struct {
	Scheme string `json:"scheme"` // for one that is none of the web
	Local  string `json:"local"`  // for one on the device itself or in a local network
}

const maxClosed = 512

// Reached is one thing that a call reaches.
type Reached struct {
	Reach
	Text string // as the argument has it
}

// Reaching lists the arguments that name things of a kind, in the order of the descriptor.
func (d *Descriptor) Reaching(kind ReachKind) []string {
	var all []string
	for _, r := range d.Reach {
		if r.Kind == kind {
			all = append(all, r.Arg)
		}
	}
	return all
}

// Reaches lists what canonical arguments reach, in the order of the descriptor.
func (d *Descriptor) Reaches(args []byte) []Reached {
	if len(d.Reach) == 0 {
		return nil
	}
	root, err := canonical.Decode(args, canonical.Limits{})
	if err != nil {
		return nil
	}
	var all []Reached
	for _, r := range d.Reach {
		if v, found := lookup(root, r.Arg); found {
			for _, text := range texts(v) {
				all = append(all, Reached{r, text})
			}
		}
	}
	return all
}

func texts(v canonical.Value) []string {
	switch v.Kind {
	case canonical.String:
		return []string{v.Str}
	case canonical.Array:
		var all []string
		for _, item := range v.Items {
			all = append(all, texts(item)...)
		}
		return all
	}
	return nil
}

func (d *Descriptor) validateReach() error {
	for i, r := range d.Reach {
		switch {
		case !slices.Contains(d.Evidence.Args, r.Arg):
			return refuse(d, "reach %q is not one of evidence.args", r.Arg)
		case !slices.Contains([]ReachKind{ReachAddress, ReachApp, ReachPath}, r.Kind):
			return refuse(d, "reach %q: kind %q", r.Arg, r.Kind)
		case slices.ContainsFunc(d.Reach[:i], func(other Reach) bool { return other.Arg == r.Arg }):
			return refuse(d, "reach %q stands twice", r.Arg)
		case r.Closed == nil:
			continue
		case r.Kind != ReachAddress:
			return refuse(d, "reach %q: only an address is closed", r.Arg)
		}
		for _, text := range []string{r.Closed.Scheme, r.Closed.Local} {
			if text == "" || len(text) > maxClosed || !plain(text) {
				return refuse(d, "reach %q: a hint is 1 to %d plain characters", r.Arg, maxClosed)
			}
		}
	}
	return nil
}
