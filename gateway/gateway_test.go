package gateway

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/policy"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/gateway/rules"
	"github.com/handrail-dev/handrail/gateway/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func options(t testing.TB) Options {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	return Options{Dir: dir, HTTP: "127.0.0.1:0", QUIC: "127.0.0.1:0", Version: "test"}
}

func open(t testing.TB, o Options) *Gateway {
	t.Helper()
	g, err := Open(t.Context(), o)
	must(t, err)
	t.Cleanup(g.Close)
	return g
}

// The HTTPS address of a paste can be called from another device.
func TestDoorOfAPaste(t *testing.T) {
	every, one := &net.TCPAddr{IP: net.IPv6unspecified, Port: 7480}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 7480}
	for _, c := range []struct {
		url      string
		listener net.Addr
		want     string
	}{
		{"", every, ":7480"}, {"", one, "192.0.2.7:7480"}, {"", nil, ""},
		{"https://handrail.example", every, "handrail.example:443"}, {"https://handrail.example:8443/", one, "handrail.example:8443"}, {"https://[2001:db8::1]", one, "[2001:db8::1]:443"},
	} {
		if got := doorAddr(c.url, c.listener); got != c.want {
			t.Errorf("%q at %v: %q, want %q", c.url, c.listener, got, c.want)
		}
	}
}

// run runs g until stop.
func run(t *testing.T, g *Gateway) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		must(t, <-done)
		g.Close()
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, o Options, name string, data []byte) {
	t.Helper()
	path := filepath.Join(o.Dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, data, 0o600))
}

// A certificate that cannot be trusted is refused before anything listens, and the refusal says
// which file it is.
func TestOpenRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, o Options)
		names string
	}{
		"a policy that is no Cedar": {func(t *testing.T, o Options) { write(t, o, "policy/mine.cedar", []byte("permit (principal")) }, "mine.cedar"},
		"a policy for a tool that does not exist": {func(t *testing.T, o Options) {
			write(t, o, "policy/mine.cedar", []byte(`permit (principal, action == Action::"tool.browser.clicks", resource);`))
		}, "mine.cedar"},
		"a policy without end": {func(t *testing.T, o Options) { write(t, o, "policy/mine.cedar", make([]byte, policy.MaxSourceBytes+1)) }, "mine.cedar"},
		"a seal key cut short": {func(t *testing.T, o Options) { write(t, o, "seal.key", []byte("short")) }, "seal.key"},
		"a site key cut short": {func(t *testing.T, o Options) { write(t, o, "site.key", []byte("short")) }, "site.key"},
		"a gateway key that others may read": {func(t *testing.T, o Options) {
			g := open(t, o)
			g.Close()
			must(t, os.Chmod(filepath.Join(o.Dir, "gateway.key"), 0o644))
		}, "gateway.key"},
		"a store that is none": {func(t *testing.T, o Options) { write(t, o, "store.db", bytes.Repeat([]byte("x"), 8192)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			c.spoil(t, o)
			g, err := Open(t.Context(), o)
			if err == nil {
				g.Close()
				t.Fatal("it was taken")
			}
			if !strings.Contains(err.Error(), c.names) {
				t.Errorf("%v does not name %s", err, c.names)
			}
		})
	}
}

// The last packets are gone, but the signed head knows of them.
func TestOpenRefusesALedgerCutShort(t *testing.T) {
	o := options(t)
	g := open(t, o)
	stop := run(t, g)
	must(t, g.Ledger.Append(t.Context(), ledger.Draft{Kind: "gateway.test"}, ledger.Draft{Kind: "gateway.test"}))
	must(t, g.Ledger.Sign(t.Context()))
	stop()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(o.Dir, "store.db"), Migrations: ledger.Migrations, ReserveBytes: -1})
	must(t, err)
	must(t, db.Write(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM packet_store WHERE seq = (SELECT MAX(seq) FROM packet_store)`)
		return err
	}))
	must(t, db.Close())
	if g, err := Open(t.Context(), o); capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt {
		if err == nil {
			g.Close()
		}
		t.Errorf("%v", err)
	}
}

func TestOneGatewayPerFolder(t *testing.T) {
	o := options(t)
	g := open(t, o)
	if second, err := Open(t.Context(), o); err == nil {
		second.Close()
		t.Fatal("a second gateway opened the same folder")
	}
	run(t, g)()
	open(t, o)
}

// A port that is taken costs nothing but the attempt.
func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o := options(t)
	quic, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	o.QUIC = quic.LocalAddr().String()
	must(t, quic.Close())
	o.HTTP = taken.Addr().String()
	if g, err := Open(t.Context(), o); err == nil {
		g.Close()
		t.Fatal("two listen on one port")
	}
	must(t, taken.Close())
	g := open(t, o)
	if g.HTTPAddr().String() != o.HTTP || g.QUICAddr().String() != o.QUIC {
		t.Errorf("listens on %s and %s", g.HTTPAddr(), g.QUICAddr())
	}
	// Opened and closed without a life in between, it leaves nothing behind.
	g.Close()
	g.Close()
	open(t, o)
}

// The policy in force begins as a file that a person can read, and stays in force
// whatever becomes of the file, unless the owner takes the folder as it is.
func TestDefaultPolicy(t *testing.T) {
	o := options(t)
	g := open(t, o)
	text, err := os.ReadFile(filepath.Join(o.Dir, "policy", policy.DefaultName))
	must(t, err)
	if !bytes.Equal(text, policy.DefaultSource()) || g.Rules().SnapshotID() == "" {
		t.Error("not the shipped default")
	}
	before := g.Rules().SnapshotID()
	g.Close()
	must(t, os.Remove(filepath.Join(o.Dir, "policy", policy.DefaultName)))
	g = open(t, o)
	if g.Rules().SnapshotID() != before {
		t.Error("a file that went changed the policy in force")
	}
	g.Close()
	o.PolicyFiles = rules.FilesTaken
	g = open(t, o)
	if _, err := os.Stat(filepath.Join(o.Dir, "policy", policy.DefaultName)); !os.IsNotExist(err) || g.Rules().SnapshotID() == before {
		t.Errorf("the default came back: %v", err)
	}
}

func TestRunRecordsItsStart(t *testing.T) {
	o := options(t)
	var site capabilities.SiteID
	for range 2 {
		g := open(t, o)
		if site != "" && g.Site() != site {
			t.Errorf("the site became %s", g.Site())
		}
		site = g.Site()
		run(t, g)()
	}
	g := open(t, o)
	all, err := g.Ledger.Packets(t.Context(), ledger.Query{Kind: "gateway.started"})
	must(t, err)
	if len(all) != 2 || !strings.Contains(string(all[0].Body), g.Rules().SnapshotID()) {
		t.Errorf("%+v", all)
	}
}

func TestTokenFile(t *testing.T) {
	g := open(t, options(t))
	path := filepath.Join(t.TempDir(), "admin.token")
	spec := principal.Spec{Principal: "admin", Role: principal.RoleAdmin, Lane: "admin"}
	token := func() string {
		t.Helper()
		must(t, g.Token(t.Context(), path, spec))
		data, err := os.ReadFile(path)
		must(t, err)
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the token's file is %s", info.Mode())
		}
		return strings.TrimSpace(string(data))
	}
	first := token()
	if token() != first {
		t.Error("a token that works was replaced")
	}
	who, err := g.Tokens.Authenticate(first)
	must(t, err)
	_, err = g.Tokens.Revoke(t.Context(), principal.Site, who.TokenID)
	must(t, err)
	second := token()
	if _, err := g.Tokens.Authenticate(second); err != nil || second == first {
		t.Errorf("after the revocation: %v", err)
	}
	spec.Role = principal.RoleOperator
	if token() == second {
		t.Error("a token of another role was kept")
	}
	must(t, os.WriteFile(path, []byte("rubbish"), 0o600))
	if _, err := g.Tokens.Authenticate(token()); err != nil {
		t.Error(err)
	}
}
