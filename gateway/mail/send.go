package mail

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/smtp"
	"net/textproto"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

const (
	dialTime = 10 * time.Second
	// sessionTime bounds all of a delivery, and maxReplies all that a server says in it, in bytes.
	sessionTime = 30 * time.Second
	maxReplies  = 256 << 10
)

// errPlain is why nothing is sent without TLS.
var errPlain = errors.New("mail: the server offers no STARTTLS, and is not this host")

// deliver sends one message to all that are named. It returns within sessionTime.
func (s *Sender) deliver(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTime)
	defer cancel()
	c := s.opts.Config
	conn, err := (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "tcp", net.JoinHostPort(c.Host, c.Port))
	if err != nil {
		return err
	}
	defer conn.Close()
	// The package below knows no context: the end of it closes what it reads and writes.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	secured := &tls.Config{ServerName: c.Host, RootCAs: s.opts.Roots, MinVersion: tls.VersionTLS12}
	var line net.Conn = &bounded{Conn: conn, left: maxReplies}
	if c.Implicit {
		line = tls.Client(line, secured)
	}
	client, err := smtp.NewClient(line, c.Host)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Hello("handrail.invalid"); err != nil {
		return err
	}
	if !c.Implicit {
		switch offered, _ := client.Extension("STARTTLS"); {
		case offered:
			if err := client.StartTLS(secured); err != nil {
				return err
			}
		case !c.Plain:
			return errPlain
		}
	}
	if c.User != "" {
		// It refuses to send the password without TLS, unless the server is this host.
		if err := client.Auth(smtp.PlainAuth("", c.User, string(c.Password.Reveal()), c.Host)); err != nil {
			return err
		}
	}
	if err := client.Mail(c.From); err != nil {
		return err
	}
	for _, to := range c.To {
		if err := client.Rcpt(to); err != nil {
			return err
		}
	}
	w, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, bytes.NewReader(message)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = client.Quit() // it is taken
	return nil
}

// lasting reports whether another try would end the same.
func lasting(err error) bool {
	var said *textproto.Error
	var unknown x509.UnknownAuthorityError
	var other x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	return errors.As(err, &said) && said.Code >= 500 || errors.Is(err, errPlain) || errors.As(err, &unknown) || errors.As(err, &other) ||
		errors.As(err, &invalid) || errors.As(err, &verification)
}

// reason is an error in words that may be logged: what a server says may be anything, even what it
// was told.
func reason(err error) string {
	var said *textproto.Error
	if errors.As(err, &said) {
		return "the server refused it: " + strconv.Itoa(said.Code)
	}
	return capabilities.Clip(word(err.Error()), 2*maxWord)
}

// bounded is a connection of which no more than left bytes are read.
type bounded struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("mail: the server says too much")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
