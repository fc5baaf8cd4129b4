package mcp

// Bound lowers what a token may have at once; before Run.
func (s *Server) Bound(views, sessions int) { s.maxViews, s.maxSessions = views, sessions }
