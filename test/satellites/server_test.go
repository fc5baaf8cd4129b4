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
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
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

// elsewhere is a nats-server of its own process, and what there is to know of it.
type elsewhere struct {
	t      *testing.T
	at     string
	dir    string
	config string
}

// insiders are what a server's configuration has beside our lines: somebody who may do anything
// there, as whoever operates it may.
const insiders = "insider"

// startElsewhere starts a gateway whose bus is a server elsewhere. kicks: the server has the
// lines by which the gateway may end connections.
func startElsewhere(t *testing.T, a *authority, kicks bool) (*house, *elsewhere) {
	t.Helper()
	x := &elsewhere{t: t, at: freePort(t), dir: t.TempDir()}
	h := start(t, func(o *gateway.Options) { o.NATS, o.NATSTLS = "tls://"+x.at, a.config("gateway") })
	keys, err := h.Gateway.Bus.Keys()
	must(t, err)
	cert, key := a.issue("server")
	for name, data := range map[string][]byte{"ca.pem": a.pem, "cert.pem": cert, "key.pem": key} {
		must(t, os.WriteFile(filepath.Join(x.dir, name), data, 0o600))
	}
	config := fmt.Sprintf(`listen: %q
max_payload: 1MB
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
authorization {
  users: [ { nkey: %[5]s }, { user: %[8]s, password: %[8]s } ]
  auth_callout { issuer: %[6]s, auth_users: [ %[5]s, %[7]s, %[8]s ] }
}
`, x.at, x.dir+"/cert.pem", x.dir+"/key.pem", x.dir+"/ca.pem", keys.Gateway, keys.Issuer, keys.System, insiders)
	if kicks {
		config += fmt.Sprintf(`accounts {
  SYS { users: [ { nkey: %s, permissions: { publish: [ "$SYS.REQ.SERVER.*.KICK" ], subscribe: [ "_INBOX.>" ] } } ] }
}
system_account: SYS
`, keys.System)
	} else {
		config = strings.Replace(config, " "+keys.System+",", "", 1)
	}
	x.config = filepath.Join(x.dir, "nats.conf")
	must(t, os.WriteFile(x.config, []byte(config), 0o600))
	return h, x
}

func (x *elsewhere) serve() *exec.Cmd {
	x.t.Helper()
	p := process(x.t, "SATELLITES_SERVER="+x.config)
	within(x.t, "the server", func() bool {
		c, err := net.Dial("tcp", x.at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return p
}

// A nats-server of its own process is the bus, with mutual TLS: it asks the gateway who may
// connect. When it ends and comes back, so do gateway and satellite, and no call runs twice.
func TestAServerElsewhere(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h, x := startElsewhere(t, a, false)
	at, dir := x.at, x.dir
	process := x.serve()

	e, home := &echo{}, t.TempDir()
	far := satellite.JoinOptions{TLS: a.config("satellite")}
	run(t, satellite.Options{Name: "voice", Dir: home, Paste: h.invite("voice"), Join: far, Tools: []satellite.Tool{e.plain()}})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	want(t, h.call("tool.voice.say", `{"text":"one"}`, ""), capabilities.StatusOK, "")

	// A worker on another machine asks over that server, too (S3-23).
	c, _, rest := h.asker(h.letIn("box"), satellite.AskerOptions{TLS: a.config("worker")})
	h.asksAll(c)
	if n := rest.asked.Load(); n > 0 {
		t.Errorf("%d requests of a worker went over HTTP", n)
	}

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
	must(t, process.Process.Kill())
	_ = process.Wait()
	within(t, "the gateway to notice", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Health == bus.HealthGone
	})
	close(gate)
	x.serve()
	r := <-result
	want(t, r, capabilities.StatusOK, "")
	if e.times("two") != 1 {
		t.Errorf("it ran %d times", e.times("two"))
	}
	h.callable("tool.voice.say")

	_, err := h.Gateway.Bus.Decide(context.Background(), "root", p.Host, route.StateRevoked, "")
	must(t, err)
	if r := h.call("tool.voice.say", `{"text":"three"}`, ""); r.Status == capabilities.StatusOK || e.times("three") != 0 {
		t.Errorf("a revoked satellite works: %+v", r)
	}
}

// A satellite that is revoked loses its connection to a server elsewhere at once, where that server
// lets the gateway end connections, and it does not come in again.
func TestARevokedSatelliteElsewhere(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h, x := startElsewhere(t, a, true)
	x.serve()
	log, e := &events{}, &echo{}
	run(t, satellite.Options{
		Name: "voice", Dir: t.TempDir(), Paste: h.invite("voice"), Join: satellite.JoinOptions{TLS: a.config("satellite")},
		Log: slog.New(slog.NewTextHandler(log, nil)), Tools: []satellite.Tool{e.plain()},
	})
	p := h.approve("voice")
	h.callable("tool.voice.say")
	if log.times("satellite.disconnected") != 0 {
		t.Fatal("it was cut off before")
	}
	_, err := h.Gateway.Bus.Decide(context.Background(), "root", p.Host, route.StateRevoked, "")
	must(t, err)
	within(t, "its connection to end", func() bool { return log.times("satellite.disconnected") > 0 })
	time.Sleep(2 * time.Second) // it tries again meanwhile
	if n := log.times("satellite.connected"); n != 1 {
		t.Errorf("it was connected %d times", n)
	}
}

// A client on the bus with every right there, as the operator of a server elsewhere has, makes
// no heartbeat count: not one that was seen, not one by a key that they gave the satellite in
// the gateway's place, and none of 10,000 satellites that there are not. One subscription shows
// them all tools (S3-26, S3-32), also of a domain that nobody compiled in (S3-34); plumbing has
// its own subjects (S3-24, S3-25).
func TestAnInsiderOnTheBus(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	h, x := startElsewhere(t, a, false)
	x.serve()
	far := satellite.JoinOptions{TLS: a.config("satellite")}
	in, err := nats.Connect("tls://"+x.at, nats.UserInfo(insiders, insiders), nats.Secure(a.config("insider")), nats.NoReconnect())
	must(t, err)
	t.Cleanup(in.Close)
	hears := func(subject string) *nats.Subscription {
		sub, err := in.SubscribeSync(subject)
		must(t, err)
		must(t, in.Flush())
		return sub
	}
	plane, plumbing, keys := hears(tools.AllTools), hears("factory.gh.*"), hears("_INBOX.>")
	o := satellite.Options{Name: "camoufox", Dir: t.TempDir(), Paste: h.invite("camoufox"), Join: far, Tools: []satellite.Tool{(&echo{}).plain()}}
	run(t, o)
	p := h.approve("camoufox")
	run(t, satellite.Options{Name: "gh", Dir: t.TempDir(), Paste: h.invite("gh"), Join: far, Tools: o.Tools})
	gh := h.approve("gh")
	h.callable("tool.camoufox.say")
	h.callable("tool.gh.say")
	at := remote.Heartbeats("camoufox", string(p.Host))
	heartbeat := func(sub *nats.Subscription, at string) *nats.Msg {
		t.Helper()
		for {
			m, err := sub.NextMsg(30 * time.Second)
			must(t, err)
			if m.Subject == at {
				return m
			}
		}
	}
	heartbeat(plumbing, remote.Heartbeats("gh", string(gh.Host)))
	// The second one has a MAC: the key was agreed on after the first.
	seen := heartbeat(plane, at)
	within(t, "a MAC", func() bool {
		v, err := h.Gateway.Bus.View(p.Host)
		return err == nil && v.Keyed
	})
	view := func() bus.View {
		v, err := h.Gateway.Bus.View(p.Host)
		must(t, err)
		return v
	}
	refused := func(why string, data []byte) {
		t.Helper()
		n, before := h.Gateway.Bus.Refused()[why], view().Seen
		must(t, in.Publish(at, data))
		h.refusals(why, n+1)
		if !view().Seen.Equal(before) && view().Manifest == "sha256:"+strings.Repeat("f", 64) {
			t.Errorf("%s: it counts", why)
		}
	}
	refused("repeated", seen.Data)
	now := remote.Heartbeat{
		Contract: 1, Satellite: string(p.Host), Service: "camoufox", Host: "box", Manifest: "sha256:" + strings.Repeat("f", 64), Ready: true, Connected: true,
		TS: time.Now().UTC().Format(time.RFC3339Nano), Seq: uint64(time.Now().Add(time.Minute).UnixMilli()),
	}
	own, err := nkeys.CreateUser()
	must(t, err)
	signed, err := now.Sign(own.Sign)
	must(t, err)
	refused("forged", signed)

	// A key in the gateway's place: the satellite agrees on it, and the gateway knows nothing of it.
	g, err := remote.NewAgreement(string(p.Host))
	must(t, err)
	ask, err := remote.Write(g.Request())
	must(t, err)
	inbox := remote.Inbox(string(p.Host)) + ".insider"
	must(t, in.PublishRequest(remote.Own("camoufox", string(p.Host)), inbox, ask))
	reply, err := remote.ReadReply(heartbeat(keys, inbox).Data)
	must(t, err)
	stolen, err := g.Take(*reply.Key, func([]byte, []byte) error { return nil })
	must(t, err)
	sealed, err := now.Sign(stolen.MAC)
	must(t, err)
	time.Sleep(2 * time.Second) // four at once and one each second are read
	refused("forged", sealed)
	before := view().Seen
	within(t, "the satellite to be heard all the same", func() bool { return view().Seen.After(before) })

	for i := range 10_000 {
		must(t, in.Publish(remote.Heartbeats("camoufox", fmt.Sprintf("t%016d", i)), signed))
	}
	must(t, in.Flush())
	h.refusals("unknown", 10_000)
	if n := len(h.Gateway.Bus.Views()); n != 2 {
		t.Errorf("%d satellites", n)
	}
	if drops, err := plane.Dropped(); err == nil && drops > 0 {
		t.Logf("%d dropped", drops)
	}
	for _, v := range h.Gateway.Bus.Views() {
		if v.Health != bus.HealthReady {
			t.Errorf("%s is %s", v.Service, v.Health)
		}
	}
}
