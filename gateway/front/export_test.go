package front

// Watched is how many addresses the limiter remembers, and how many it may.
func Watched(s *Server) (have, most int) {
	s.failed.mu.Lock()
	defer s.failed.mu.Unlock()
	return len(s.failed.byAddr), maxWatched
}
