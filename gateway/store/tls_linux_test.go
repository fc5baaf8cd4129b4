package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store/pgtest"
)

// stranger is the file of an authority that signed nothing here.
func stranger(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := &x509.Certificate{SerialNumber: big.NewInt(7), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(at, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// byTLS meets a server over TCP: only with the right authority, name and password.
func byTLS(t *testing.T, server *pgtest.Server) {
	t.Helper()
	port, authority, passfile := server.TLS("geheim-4711")
	open := func(schema, host string, with url.Values) error {
		with.Set("schema", schema)
		s, err := Open(t.Context(), Options{URL: URL("postgres://handrail@" + host + ":" + port + "/postgres?" + with.Encode()), Migrations: testTables})
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.Write(t.Context(), func(tx *Tx) error { return insert(tx, "one") }); err != nil {
			t.Errorf("by TLS a write got %v", err)
		}
		var over bool
		if err := s.Read().QueryRowContext(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&over); err != nil || !over {
			t.Errorf("the readers came without TLS: %v", err)
		}
		return s.Close()
	}
	whole := func() url.Values {
		return url.Values{"sslmode": {"verify-full"}, "sslrootcert": {authority}, "passfile": {passfile}, "pool_max_conns": {"2"}}
	}
	if err := open("right", "127.0.0.1", whole()); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(t.TempDir(), "pass")
	if err := os.WriteFile(wrong, []byte("*:*:*:*:geheim-4712\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct{ host, key, value string }{
		"authority": {"127.0.0.1", "sslrootcert", stranger(t)},
		"name":      {"localhost", "sslrootcert", authority},
		"password":  {"127.0.0.1", "passfile", wrong},
		"clear":     {"127.0.0.1", "sslmode", "disable"},
	} {
		with := whole()
		with.Set(one.key, one.value)
		err := open("wrong", one.host, with)
		if capabilities.CodeOf(err) != capabilities.CodeLedgerUnavailable {
			t.Errorf("wrong %s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), "geheim-47") {
			t.Errorf("wrong %s: the error holds the password: %v", name, err)
		}
	}
}
