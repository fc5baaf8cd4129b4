package oauth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// Client IDs, access tokens and refresh tokens are texts that prove themselves: a kind, what they
// say, and a MAC of both by a key of the gateway. Nothing is kept of them.
//
//	"hrc_"  client ID      JSON of what a client said of itself
//	"hra_"  access token   8 bytes end (Unix seconds) · 8 bytes chance · ID of the token
//	"hrf_"  refresh token  8 bytes generation · ID of the token
//	each    base64url of the above and of 32 bytes HMAC-SHA-256 over kind and text
const (
	clientKind  = "hrc_"
	accessKind  = "hra_"
	refreshKind = "hrf_"

	maxSealed = 4 << 10
)

func (s *Server) mac(kind string, text []byte) []byte {
	m := hmac.New(sha256.New, s.opts.Key)
	m.Write([]byte(kind))
	m.Write(text)
	return m.Sum(nil)
}

func (s *Server) seal(kind string, text []byte) string {
	return kind + base64.RawURLEncoding.EncodeToString(append(text[:len(text):len(text)], s.mac(kind, text)...))
}

// unseal returns what a sealed text says; false: it is none of that kind, or none of ours.
func (s *Server) unseal(kind, sealed string) ([]byte, bool) {
	rest, ok := strings.CutPrefix(sealed, kind)
	if !ok || len(sealed) > maxSealed {
		return nil, false
	}
	// Each text is written in one way only: Strict, and without the line breaks that are skipped.
	if strings.ContainsAny(rest, "\r\n") {
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(data) < sha256.Size {
		return nil, false
	}
	text := data[: len(data)-sha256.Size : len(data)-sha256.Size]
	return text, hmac.Equal(s.mac(kind, text), data[len(text):])
}

func isAccess(token string) bool { return strings.HasPrefix(token, accessKind) }

func (s *Server) newAccess(tokenID string, until time.Time) string {
	text := make([]byte, 16, 16+len(tokenID))
	binary.BigEndian.PutUint64(text, uint64(until.Unix()))
	rand.Read(text[8:]) // never fails (crypto/rand)
	return s.seal(accessKind, append(text, tokenID...))
}

// readAccess returns the ID of the token that an access token stands for.
func (s *Server) readAccess(token string) (tokenID string, err error) {
	text, ok := s.unseal(accessKind, token)
	if !ok || len(text) <= 16 {
		return "", capabilities.Errorf(capabilities.CodeUnauthenticated, "the access token is not valid")
	}
	if until := time.Unix(int64(binary.BigEndian.Uint64(text)), 0); !s.opts.Now().Before(until) {
		return "", capabilities.Errorf(capabilities.CodeUnauthenticated, "the access token has expired")
	}
	return string(text[16:]), nil
}

func (s *Server) refreshToken(tokenID string, generation int64) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(generation))
	return s.seal(refreshKind, append(text, tokenID...))
}

func (s *Server) readRefresh(token string) (tokenID string, generation int64, ok bool) {
	text, ok := s.unseal(refreshKind, token)
	if !ok || len(text) <= 8 {
		return "", 0, false
	}
	return string(text[8:]), int64(binary.BigEndian.Uint64(text)), true
}
