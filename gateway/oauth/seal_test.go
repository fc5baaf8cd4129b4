package oauth

import (
	"strings"
	"testing"
	"time"
)

// Only a text that this server made says anything, in one writing.
func FuzzSealed(f *testing.F) {
	s := &Server{opts: Options{Key: make([]byte, 32), Now: func() time.Time { return time.Unix(1, 0) }}}
	other := &Server{opts: Options{Key: []byte(strings.Repeat("k", 32)), Now: s.opts.Now}}
	for _, seed := range []string{
		s.newAccess("t1", time.Unix(100, 0)), s.refreshToken("t1", 7), s.seal(clientKind, []byte(`{}`)), other.newAccess("t1", time.Unix(100, 0)),
		"hra_", "hrf_AAAA", "", "hra_\n" + strings.TrimPrefix(s.newAccess("t1", time.Unix(100, 0)), "hra_"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := s.readAccess(text); (err == nil) != (id != "") {
			t.Errorf("%q and %v", id, err)
		}
		if id, n, ok := s.readRefresh(text); ok && s.refreshToken(id, n) != text {
			t.Errorf("%q is read as %s, %d", text, id, n)
		}
		for _, kind := range []string{clientKind, accessKind, refreshKind} {
			if data, ok := s.unseal(kind, text); ok && s.seal(kind, data) != text {
				t.Errorf("%q is written in another way, too", text)
			}
		}
		if _, ok := other.unseal(refreshKind, text); ok {
			t.Errorf("another server takes %q", text)
		}
	})
}
