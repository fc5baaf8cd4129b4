package rest

import (
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// Bounds of event streams.
const (
	MaxStreams = maxStreams
	MaxEach    = maxEach
	MaxInAll   = maxInAll
)

// Left reports whether an error is no more than a client that went away.
var Left = left

// OpenStream counts one more event stream of somebody's, as a request for one does.
func (s *Server) OpenStream(who principal.Identity) error { return s.streams.open(who) }

// CloseStream counts one less.
func (s *Server) CloseStream(who principal.Identity) { s.streams.close(who) }

// Patterns are the routes that are served.
func (s *Server) Patterns() []string {
	var all []string
	for _, e := range s.routes {
		all = append(all, e.method+" "+e.path)
	}
	return all
}

// Dark is a gateway on which nobody can watch.
func Dark() Live { return dark{} }

// Actions are the routes with the action of each.
func (s *Server) Actions() map[string]principal.Action {
	all := map[string]principal.Action{}
	for _, e := range s.routes {
		all[e.method+" "+e.path] = e.action
	}
	return all
}

// Works are the routes that are admin work, with what it is.
func (s *Server) Works() map[string]capabilities.ToolID {
	all := map[string]capabilities.ToolID{}
	for _, e := range s.routes {
		if e.does != "" {
			all[e.method+" "+e.path] = e.does
		}
	}
	return all
}
