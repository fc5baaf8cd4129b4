package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Unreached is a sentence about why a server was not reached, for whoever named it; "" where the
// error does not tell. It holds no part of the address, in which a key may stand.
func Unreached(err error) string {
	var name *net.DNSError
	var cert *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "Its name does not resolve."
	case errors.As(err, &name):
		return "Its name could not be asked about."
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Nothing listens there: the connection is refused."
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "No network leads there."
	case errors.As(err, &cert):
		return "Its certificate is not trusted on that device."
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		return "It does not speak TLS: its address begins with http://."
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "It did not answer in time."
	}
	return ""
}
