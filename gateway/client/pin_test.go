package client_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/gateway/client"
)

// The pinned certificate is the only one that gets the token, and without a pin one
// that an authority stands behind.
func TestPin(t *testing.T) {
	var tokens []string
	serve := func() *httptest.Server {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			tokens = append(tokens, r.Header.Get("Authorization"))
			_, _ = w.Write([]byte(`{"status":"ok"}`))
		}))
		s.Config.ErrorLog = nil
		t.Cleanup(s.Close)
		return s
	}
	s := serve()
	file := filepath.Join(t.TempDir(), "http.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	pin := must(client.PinFile(file))(t)
	c := must(client.NewPinned(s.URL, client.NewToken("hrt_x"), pin))(t)
	if _, err := c.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := client.PinOf(sha256.Sum256([]byte("another certificate")))
	for _, pin := range []client.Pin{{}, other} {
		c := must(client.NewPinned(s.URL, client.NewToken("hrt_y"), pin))(t)
		if _, err := c.Health(t.Context()); !errors.Is(err, client.ErrUnreachable) || !client.Untrusted(err) {
			t.Errorf("%s: %v", pin, err)
		}
	}
	if len(tokens) != 1 || tokens[0] != "Bearer hrt_x" {
		t.Errorf("tokens that were sent: %q", tokens)
	}
	if _, err := client.NewPinned("http://127.0.0.1:1", client.NewToken("x"), pin); err == nil {
		t.Error("a pin for an address without a certificate")
	}
}

func TestParsePin(t *testing.T) {
	sum := sha256.Sum256([]byte("x"))
	pin := client.PinOf(sum)
	for _, text := range []string{pin.String(), strings.ToLower(pin.String()), hex.EncodeToString(sum[:]), "sha256:" + hex.EncodeToString(sum[:]), "SHA256=" + hex.EncodeToString(sum[:]), strings.ReplaceAll(pin.String(), ":", " ")} {
		if got, err := client.ParsePin(text); err != nil || got != pin {
			t.Errorf("%q: %s %v", text, got, err)
		}
	}
	for _, text := range []string{"SHA256", "x", hex.EncodeToString(sum[:31]), hex.EncodeToString(sum[:]) + "00", "sha1:" + hex.EncodeToString(sum[:])} {
		if got, err := client.ParsePin(text); err == nil {
			t.Errorf("%q is taken as %s", text, got)
		}
	}
	if got, err := client.ParsePin(" "); err != nil || !got.IsZero() || got.String() != "" {
		t.Errorf("none: %v %v", got, err)
	}
}

func FuzzParsePin(f *testing.F) {
	f.Add("SHA256 " + strings.Repeat("3B:", 31) + "0C")
	f.Add(strings.Repeat("ab", 32))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := client.ParsePin(text)
		if err != nil && !p.IsZero() {
			t.Error("a pin with an error")
		}
		if again, err := client.ParsePin(p.String()); err != nil || again != p {
			t.Errorf("%q does not come back: %v", text, err)
		}
	})
}
