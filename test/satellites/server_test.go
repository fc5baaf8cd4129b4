package satellites

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway"
	"github.com/handrail-dev/handrail/gateway/bus"
	"github.com/handrail-dev/handrail/gateway/route"
	"github.com/handrail-dev/handrail/satellite"
)

// authority makes certificates for one test.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{t, cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue returns certificate and key as PEM.
func (a *authority) issue(name string) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, k.Public(), a.key)
	must(a.t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	must(a.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) config(name string) *tls.Config {
	cert, key := a.issue(name)
	pair, err := tls.X509KeyPair(cert, key)
	must(a.t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// A nats-server of its own process is the bus, with mutual TLS: it asks the gateway who may
// connect. When it ends and comes back, so do gateway and satellite, and no call runs twice.
func TestAServerElsewhere(t *testing.T) {
	a, at, dir := newAuthority(t), freePort(t), t.TempDir()
	h := start(t, func(o *gateway.Options) { o.NATS, o.NATSTLS = "tls://"+at, a.config("gateway") })
	keys, err := h.Gateway.Bus.Keys()
	must(t, err)
	cert, key := a.issue("server")
	for name, data := range map[string][]byte{"ca.pem": a.pem, "cert.pem": cert, "key.pem": key} {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	config := filepath.Join(dir, "nats.conf")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `listen: %q
max_payload: 1MB
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
authorization {
  users: [ { nkey: %s } ]
  auth_callout { issuer: %s, auth_users: [ %s ] }
}
`, at, dir+"/cert.pem", dir+"/key.pem", dir+"/ca.pem", keys.Gateway, keys.Issuer, keys.Gateway), 0o600))
	serve := func() *exec.Cmd {
		p := process(t, "SATELLITES_SERVER="+config)
		within(t, "the server", func() bool {
			c, err := net.Dial("tcp", at)
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		})
		return p
	}
	server := serve()

	e, home := &echo{}, t.TempDir()
	far := satellite.JoinOptions{TLS: a.config("satellite")}
	run(t, satellite.Options{Name: "voice", Dir: home, Paste: h.invite("voice"), Join: far, Tools: []satellite.Tool{e.plain()}})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	want(t, h.call("tool.voice.say", `{"text":"one"}`, ""), capabilities.StatusOK, "")

	// Nobody is in without a certificate, or with one and a key that the gateway does not know.
	if _, err := nats.Connect("tls://"+at, nats.NoReconnect(), nats.RootCAs(dir+"/ca.pem")); err == nil {
		t.Error("somebody without a certificate is in")
	}
	if _, err := nats.Connect("tls://"+at, nats.NoReconnect(), nats.Secure(a.config("stranger"))); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stranger: %v", err)
	}

	// The bus begins anew in the middle of a call.
	gate := make(chan struct{})
	e.mu.Lock()
	e.gate = gate
	e.mu.Unlock()
	result := make(chan capabilities.Result, 1)
	go func() { result <- h.call("tool.voice.say", `{"text":"two"}`, "r-2") }()
	within(t, "the call to begin", func() bool { return e.times("two") == 1 })
	must(t, server.Process.Kill())
	_ = server.Wait()
	within(t, "the gateway to notice", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Health == bus.HealthGone
	})
	close(gate)
	serve()
	r := <-result
	want(t, r, capabilities.StatusOK, "")
	if e.times("two") != 1 {
		t.Errorf("it ran %d times", e.times("two"))
	}
	h.callable("tool.voice.say")

	_, err = h.Gateway.Bus.Decide(context.Background(), "root", p.Host, route.StateRevoked, "")
	must(t, err)
	if r := h.call("tool.voice.say", `{"text":"three"}`, ""); r.Status == capabilities.StatusOK || e.times("three") != 0 {
		t.Errorf("a revoked satellite works: %+v", r)
	}
}
