package rest

// Patterns are the routes that are served.
func (s *Server) Patterns() []string {
	var all []string
	for _, e := range s.routes {
		all = append(all, e.method+" "+e.path)
	}
	return all
}
