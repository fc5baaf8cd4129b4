package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
)

var errRotated = errors.New("oauth: another request made the next token")

// revoke is the revocation endpoint (RFC 7009). A client that gives up either of its tokens is out.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	f, bad := form(w, r)
	if bad != nil {
		s.note(r, Step{What: Revoked, Fault: bad.about})
		writeError(w, http.StatusBadRequest, bad.code, bad.about)
		return
	}
	if f.Get("token") == "" {
		writeError(w, http.StatusBadRequest, "invalid_request", "There is no token to revoke.")
		return
	}
	token, err := s.readAccess(f.Get("token"))
	if err != nil {
		token, _, _ = s.readRefresh(f.Get("token"))
	}
	rec, _, err := s.opts.Tokens.Identify(token)
	if err != nil { // one that is none is good no more, too
		write(w, http.StatusOK, struct{}{})
		return
	}
	if have, err := s.row(r.Context(), token); err == nil && f.Has("client_id") {
		id := sha256.Sum256([]byte(f.Get("client_id")))
		if subtle.ConstantTimeCompare(id[:], have.client) != 1 {
			s.note(r, Step{What: Revoked, Client: rec.Client, Fault: "The token is another client's."})
			writeError(w, http.StatusBadRequest, "invalid_client", "The token is another client's.")
			return
		}
	}
	if err := s.opts.Tokens.Withdraw(r.Context(), token); err != nil {
		s.opts.Log.Error("oauth.revoke", "token_id", token, "err", err)
		writeError(w, http.StatusServiceUnavailable, "server_error", "The gateway cannot write it down.")
		return
	}
	s.note(r, Step{What: Revoked, Client: rec.Client})
	write(w, http.StatusOK, struct{}{})
}
