package front

import (
	"crypto/x509"
	"log/slog"
	"time"
)

// Watched is how many addresses the limiter remembers, and how many it may.
func Watched(s *Server) (have, most int) {
	s.failed.mu.Lock()
	defer s.failed.mu.Unlock()
	return len(s.failed.byAddr), maxWatched
}

// LoadCertificateOf is LoadCertificate with the authorities that this system is to
// trust.
func LoadCertificateOf(roots *x509.CertPool, certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c, err := LoadCertificate(certFile, keyFile, log)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roots = roots
	return c, c.readLocked(c.seen)
}

// SetBodyTime changes how long a client may take to send a body; before Run.
func SetBodyTime(s *Server, d time.Duration) { s.bodyTime = d }

// SetStrangerIdle changes how long a connection without a token may say nothing; before Run.
func SetStrangerIdle(s *Server, d time.Duration) { s.idle = d }
