package front_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/front"
)

func generated(t *testing.T) *front.Certificate {
	t.Helper()
	dir := t.TempDir()
	c, err := front.GeneratedCertificate(filepath.Join(dir, "http.crt"), filepath.Join(dir, "http.key"), []string{"desk.example", "192.0.2.7"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// authority is one that a test trusts.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{cert, key}
}

// issue writes a certificate of the authority's with that number.
func (a authority) issue(t *testing.T, certFile, keyFile string, number int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(number), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"handrail.example"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{keyFile: {Type: "PRIVATE KEY", Bytes: secret}, certFile: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(file+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
}

// serve runs a server with that certificate until the test ends.
func serve(t *testing.T, c *front.Certificate) (address string) {
	t.Helper()
	s, err := front.New(front.Options{Addr: "127.0.0.1:0", Tokens: nobody{}, Certificate: c, Hosts: []string{"handrail.example"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Handle("/open", front.Open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.SetCookie(w, r, "x")
	}))
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// ask returns the number of the certificate that is served now, and the answer.
func ask(t *testing.T, address string, roots *x509.CertPool) (int64, http.Header) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "handrail.example"}, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("https://" + address + "/open")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%d", resp.StatusCode)
	}
	return resp.TLS.PeerCertificates[0].SerialNumber.Int64(), resp.Header
}

// A renewed certificate is served without a restart; a broken one leaves the one
// before in use and is said once.
func TestCertificatesAreReadAgain(t *testing.T) {
	dir, ca := t.TempDir(), newAuthority(t)
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	ca.issue(t, certFile, keyFile, 11)
	var mu sync.Mutex
	var log bytes.Buffer
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	c, err := front.LoadCertificateOf(roots, certFile, keyFile, slog.New(slog.NewTextHandler(locked{&mu, &log}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, c)
	n, h := ask(t, at, roots)
	if n != 11 || h.Get("Strict-Transport-Security") == "" || !strings.Contains(h.Get("Set-Cookie"), "Secure") {
		t.Errorf("%d %v", n, h)
	}
	before := c.Fingerprint()
	ca.issue(t, certFile, keyFile, 12)
	if n, _ := ask(t, at, roots); n != 12 || c.Fingerprint() == before {
		t.Errorf("after a renewal: %d", n)
	}
	for _, broken := range []string{"", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(certFile, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if n, _ := ask(t, at, roots); n != 12 {
				t.Errorf("with a broken file: %d", n)
			}
		}
	}
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n, _ := ask(t, at, roots); n != 12 {
			t.Errorf("without a file: %d", n)
		}
	}
	ca.issue(t, certFile, keyFile, 13)
	if n, _ := ask(t, at, roots); n != 13 {
		t.Errorf("after mending: %d", n)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Count(log.String(), "stays in use"); got != 3 {
		t.Errorf("said %d times:\n%s", got, log.String())
	}
}

// A certificate of its own is the same after a restart, known by its fingerprint, and
// asks no browser to insist on it.
func TestGeneratedCertificate(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "http.crt"), filepath.Join(dir, "http.key")
	c, err := front.GeneratedCertificate(certFile, keyFile, []string{"handrail.example"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := front.GeneratedCertificate(certFile, keyFile, nil, nil)
	if err != nil || again.Fingerprint() != c.Fingerprint() || c.Real() || !strings.HasPrefix(c.Fingerprint(), "SHA256 ") {
		t.Fatalf("%s, then %s (%v)", c.Fingerprint(), again.Fingerprint(), err)
	}
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v %v", info, err)
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	if _, h := ask(t, serve(t, c), roots); h.Get("Strict-Transport-Security") != "" || !strings.Contains(h.Get("Set-Cookie"), "Secure") {
		t.Errorf("%v", h)
	}
	if err := os.WriteFile(certFile, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := front.GeneratedCertificate(certFile, keyFile, nil, nil); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || capabilities.AsError(err).PublicHint() == "" {
		t.Errorf("a damaged one: %v", err)
	}
	if _, err := front.LoadCertificate(filepath.Join(dir, "none"), keyFile, nil); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest || capabilities.AsError(err).PublicHint() == "" {
		t.Errorf("a missing one: %v", err)
	}
}
