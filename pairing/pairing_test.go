package pairing

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/handrail-dev/handrail/capabilities"
)

func mustKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func mustSite(t testing.TB) *Site {
	t.Helper()
	s, err := NewSite(mustKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

func TestIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), nodeBytes, nodeBytes).Draw(t, "body")
		id := format(kindNode, body)
		if got, err := ParseNodeID(id); err != nil || string(got) != id {
			t.Fatalf("%s: %s, %v", id, got, err)
		}
		loose := strings.ToUpper(id[:5]) + " " + strings.ReplaceAll(strings.ReplaceAll(id[5:], "0", "O"), "1", "l") + "\n"
		if got, err := ParseNodeID(loose); err != nil || string(got) != id {
			t.Fatalf("%q: %s, %v", loose, got, err)
		}
		i := rapid.IntRange(1, len(id)-1).Draw(t, "at")
		j := rapid.IntRange(1, len(id)-1).Draw(t, "and")
		slip := []byte(id)
		slip[i] = digits[rapid.IntRange(0, 31).Draw(t, "becomes")]
		slip[j] = digits[rapid.IntRange(0, 31).Draw(t, "other")]
		if _, err := ParseNodeID(string(slip)); (err == nil) != (string(slip) == id) {
			t.Fatalf("%s for %s: %v", slip, id, err)
		}
		if k := rapid.IntRange(1, len(id)-2).Draw(t, "swap"); id[k] != id[k+1] {
			swapped := []byte(id)
			swapped[k], swapped[k+1] = id[k+1], id[k]
			if _, err := ParseNodeID(string(swapped)); err == nil {
				t.Fatalf("%s for %s", swapped, id)
			}
		}
	})
	for _, s := range []string{"", "n", "s" + string(NewNodeID())[1:], string(NewNodeID())[:17], strings.Repeat("n", 5000), "nüüüüüüüüüüüüüüüüüü"} {
		if id, err := ParseNodeID(s); err == nil || id != "" {
			t.Errorf("%q: %q, %v", s, id, err)
		}
	}
	if a, b := NewNodeID(), NewNodeID(); a == b || strings.Contains(string(a), ":") {
		t.Errorf("%s %s", a, b)
	}
}

func TestPasteRoundTrip(t *testing.T) {
	site := mustSite(t)
	p := Paste{Addrs: []string{"192.0.2.7:7443", "[2001:db8::1]:7443", "desk.example:1"}, Site: site.ID(), Secret: NewSecret()}
	text, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	qr, err := p.QRText()
	if err != nil || qr != strings.ToUpper(text) {
		t.Fatalf("%s, %v", qr, err)
	}
	wrapped := "  " + text[:30] + "\r\n" + text[30:60] + "\n  " + text[60:] + "\n"
	for _, in := range []string{text, qr, wrapped} {
		got, err := ParsePaste(in)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got.Addrs) != fmt.Sprint(p.Addrs) || got.Site != p.Site || !got.Secret.Equal(p.Secret) {
			t.Errorf("got %+v", got)
		}
		if got.Secret.Invite() != p.Secret.Invite() {
			t.Error("the invite ID changed")
		}
	}
	for i := range text {
		if i < len(pastePrefix) {
			continue
		}
		changed := []byte(text)
		changed[i] = digits[(strings.IndexByte(digits, changed[i])+1)%32]
		if got, err := ParsePaste(string(changed)); capabilities.CodeOf(err) != capabilities.CodePasteInvalid || got.Addrs != nil {
			t.Fatalf("character %d changed: %v", i, err)
		}
		if got, err := ParsePaste(text[:i]); capabilities.CodeOf(err) != capabilities.CodePasteInvalid || got.Addrs != nil {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// A paste with the gateway's HTTPS in it is read whole or not at all; one without reads
// as it always did.
func TestPasteCarriesTheDoor(t *testing.T) {
	p := Paste{Addrs: []string{"192.0.2.7:7443", "[2001:db8::1]:7443"}, Site: mustSite(t).ID(), Secret: NewSecret()}
	old, err := p.Encode()
	if err != nil || !strings.HasPrefix(old, pastePrefix) {
		t.Fatal(old, err)
	}
	for addr, want := range map[string]string{":8787": "192.0.2.7:8787", "handrail.example:443": "handrail.example:443"} {
		p.Door = &Door{Addr: addr, Sum: sha256.Sum256([]byte("a certificate"))}
		text, err := p.Encode()
		if err != nil || !strings.HasPrefix(text, doorPrefix) || len(text) > 250 {
			t.Fatalf("%q (%d characters), %v", text, len(text), err)
		}
		got, err := ParsePaste(strings.ToUpper(text))
		if err != nil || got.Door == nil || *got.Door != *p.Door || got.Door.At("192.0.2.7") != want || !got.Secret.Equal(p.Secret) {
			t.Fatalf("%+v, %v", got, err)
		}
		for i := len(doorPrefix); i < len(text); i++ {
			changed := []byte(text)
			changed[i] = digits[(strings.IndexByte(digits, changed[i])+1)%32]
			if got, err := ParsePaste(string(changed)); capabilities.CodeOf(err) != capabilities.CodePasteInvalid || got.Door != nil {
				t.Fatalf("character %d changed: %v", i, err)
			}
		}
		// Neither form passes for the other.
		for _, mixed := range []string{pastePrefix + strings.TrimPrefix(text, doorPrefix), doorPrefix + strings.TrimPrefix(old, pastePrefix)} {
			if got, err := ParsePaste(mixed); capabilities.CodeOf(err) != capabilities.CodePasteInvalid || got.Addrs != nil {
				t.Errorf("%+v, %v", got, err)
			}
		}
	}
	for _, addr := range []string{"", ":", ":0", "host", "h\x1bst:1"} {
		p.Door = &Door{Addr: addr}
		if text, err := p.Encode(); err == nil {
			t.Errorf("a door at %q: %s", addr, text)
		}
	}
}

func TestPasteRefusesBadParts(t *testing.T) {
	site := mustSite(t).ID()
	good := []string{"h:1"}
	long := strings.Repeat("a", 90) + ":7443"
	for name, p := range map[string]Paste{
		"no address":     {Site: site, Secret: NewSecret()},
		"no port":        {Addrs: []string{"host"}, Site: site, Secret: NewSecret()},
		"port 0":         {Addrs: []string{"host:0"}, Site: site, Secret: NewSecret()},
		"no host":        {Addrs: []string{":7443"}, Site: site, Secret: NewSecret()},
		"control char":   {Addrs: []string{"h\x1bst:1"}, Site: site, Secret: NewSecret()},
		"many addresses": {Addrs: make([]string, MaxAddrs+1), Site: site, Secret: NewSecret()},
		"too long":       {Addrs: []string{long, long, long, long}, Site: site, Secret: NewSecret()},
		"no site":        {Addrs: good, Secret: NewSecret()},
		"no secret":      {Addrs: good, Site: site},
	} {
		if text, err := p.Encode(); err == nil || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

func TestSecretCanNotBePrinted(t *testing.T) {
	s := NewSecret()
	k := s.ProofKey()
	type outer struct {
		Shown  Secret
		hidden Secret
		key    ProofKey
		p      *Secret
	}
	o := outer{s, s, k, &s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%q", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb, s, o, &o)
		fmt.Fprintf(&out, verb, k)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", s, "outer", o, "key", k)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", s, "outer", o, "key", k)
	if err := json.NewEncoder(&out).Encode(o); err != nil {
		t.Fatal(err)
	}
	if err := gob.NewEncoder(&out).Encode(struct{ S Secret }{s}); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{s.bytes(), k.Seal()} {
		for _, form := range []string{string(b), fmt.Sprintf("%x", b), fmt.Sprintf("%d", b[:4]), fmt.Sprint(b[0], b[1], b[2]), fmt.Sprintf("%q", b)} {
			if strings.Contains(out.String(), strings.Trim(form, "[]")) {
				t.Errorf("it was printed as %q", form)
			}
		}
		if strings.Contains(out.String(), fmt.Sprintf("%#x, 0x%x, 0x%x", b[0], b[1], b[2])) {
			t.Error("it was printed as Go syntax")
		}
	}
	if again, err := OpenProofKey(k.Seal()); err != nil || !again.secret.Equal(k.secret) {
		t.Error("a sealed proof key does not open")
	}
	if _, err := OpenProofKey(make([]byte, 32)); err == nil { // of earlier versions: it was as good as the paste
		t.Error("a proof key of 32 bytes opened")
	}
	if _, err := OpenProofKey([]byte("short")); err == nil {
		t.Error("a short proof key opened")
	}
}

func TestTransitions(t *testing.T) {
	states := []State{StateNone, StatePending, StateApproved, StateDenied, StateRevoked}
	legal := map[[2]State]bool{
		{StateNone, StatePending}: true, {StateNone, StateApproved}: true,
		{StatePending, StateApproved}: true, {StatePending, StateDenied}: true,
		{StateApproved, StateRevoked}: true,
	}
	for _, from := range states {
		for _, to := range states {
			if err := from.Become(to); (err == nil) != legal[[2]State{from, to}] {
				t.Errorf("%q to %q: %v", from, to, err)
			}
		}
		if from == StateNone {
			continue
		}
		if got, err := ParseState(string(from)); got != from || err != nil {
			t.Errorf("%q: %q, %v", from, got, err)
		}
		if (from.Code() == "") != (from == StateApproved) {
			t.Errorf("%q has code %q", from, from.Code())
		}
	}
	if _, err := ParseState("maybe"); err == nil {
		t.Error("parsed")
	}
}

func TestCertificates(t *testing.T) {
	now := time.Now()
	site, other := mustSite(t), mustSite(t)
	gwKey, nodeKey := mustKey(t), mustKey(t)
	gw, err := site.CertifyGateway(pub(gwKey), now)
	if err != nil {
		t.Fatal(err)
	}
	id := NewNodeID()
	node, err := site.CertifyNode(id, pub(nodeKey), now)
	if err != nil {
		t.Fatal(err)
	}
	foreign, _ := other.CertifyGateway(pub(gwKey), now)
	foreignNode, _ := other.CertifyNode(id, pub(nodeKey), now)
	self, err := SelfSigned(nodeKey, now)
	if err != nil {
		t.Fatal(err)
	}
	chain := func(c ...*x509.Certificate) []*x509.Certificate { return c }

	peer, err := VerifyGateway(chain(gw, site.Root()), site.ID(), now)
	if err != nil || peer.Gateway != GatewayIDOf(pub(gwKey)) || !peer.Key.Equal(pub(gwKey)) || peer.Joining {
		t.Errorf("%+v, %v", peer, err)
	}
	for name, c := range map[string][]*x509.Certificate{
		"no root":                 chain(gw),
		"another site":            chain(foreign, other.Root()),
		"another site's leaf":     chain(foreign, site.Root()),
		"both roots, wrong leaf":  chain(foreign, other.Root(), site.Root()),
		"a node posing as one":    chain(node, site.Root()),
		"the root alone":          chain(site.Root()),
		"a self-signed one":       chain(self, site.Root()),
		"nothing":                 nil,
		"a leaf posing as a root": chain(gw, gw),
	} {
		if peer, err := VerifyGateway(c, site.ID(), now); capabilities.CodeOf(err) != capabilities.CodeSiteMismatch || peer.Gateway != "" {
			t.Errorf("%s: %+v, %v", name, peer, err)
		}
	}
	for name, at := range map[string]time.Time{"past": now.Add(-72 * time.Hour), "future": now.Add(LeafLifetime + time.Hour)} {
		if _, err := VerifyGateway(chain(gw, site.Root()), site.ID(), at); !errors.Is(err, ErrClock) {
			t.Errorf("%s: %v", name, err)
		}
	}

	if peer, err = site.VerifyNode(chain(node), now); err != nil || peer.Node != id || peer.Joining || !peer.Key.Equal(pub(nodeKey)) {
		t.Errorf("%+v, %v", peer, err)
	}
	if peer, err = site.VerifyNode(chain(self), now); err != nil || peer.Node != "" || !peer.Joining || !peer.Key.Equal(pub(nodeKey)) {
		t.Errorf("%+v, %v", peer, err)
	}
	for name, c := range map[string][]*x509.Certificate{
		"another site's node":   chain(foreignNode),
		"with the root besides": chain(foreignNode, site.Root()),
		"a gateway":             chain(gw),
		"nothing":               nil,
	} {
		if peer, err := site.VerifyNode(c, now); capabilities.CodeOf(err) != capabilities.CodeNodeNotPaired || peer.Node != "" || peer.Joining {
			t.Errorf("%s: %+v, %v", name, peer, err)
		}
	}
}

func TestSiteIsItsKey(t *testing.T) {
	key := mustKey(t)
	a, _ := NewSite(key)
	b, _ := NewSite(key)
	if a.ID() != b.ID() || !a.Root().Equal(b.Root()) {
		t.Error("a restored key gave another site")
	}
	if id, err := ParseSiteID(string(a.ID())); err != nil || id != a.ID() {
		t.Errorf("%s, %v", id, err)
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "site.key")
	if _, err := LoadKey(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	key, created, err := LoadOrCreateKey(path)
	if err != nil || !created {
		t.Fatal(err)
	}
	again, created, err := LoadOrCreateKey(path)
	if err != nil || created || !again.Equal(key) {
		t.Fatalf("%v, %v", created, err)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadOrCreateKey(path); capabilities.CodeOf(err) != capabilities.CodeForbidden {
		t.Errorf("a key others can read: %v", err)
	}
	for _, junk := range []string{"", "junk", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if err := SaveFile(path, []byte(junk)); err != nil {
			t.Fatal(err)
		}
		if key, created, err := LoadOrCreateKey(path); err == nil || created || key != nil {
			t.Errorf("%q: a damaged key file must not be replaced by a new key", junk)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestRotationStatementIsBound(t *testing.T) {
	a := RotationStatement("s1", "n1", []byte("x"))
	for _, b := range [][]byte{RotationStatement("s2", "n1", []byte("x")), RotationStatement("s1", "n2", []byte("x")), RotationStatement("s1", "n1", []byte("y")), RotationStatement("s1n", "1", []byte("x"))} {
		if bytes.Equal(a, b) {
			t.Error("two statements are the same")
		}
	}
}

func FuzzParsePaste(f *testing.F) {
	site, _ := NewSite(ed25519.NewKeyFromSeed(make([]byte, 32)))
	text, err := Paste{Addrs: []string{"127.0.0.1:7443"}, Site: site.ID(), Secret: secretFrom(make([]byte, secretBytes))}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(strings.ToUpper(text))
	f.Add("hr1:")
	for _, addr := range []string{":8787", "handrail.example:443"} {
		with, err := Paste{Addrs: []string{"127.0.0.1:7443"}, Site: site.ID(), Secret: secretFrom(make([]byte, secretBytes)), Door: &Door{Addr: addr}}.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(with)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePaste(text)
		if err != nil {
			if p.Addrs != nil || p.Site != "" || !p.Secret.IsZero() || p.Door != nil {
				t.Fatal("a value came with an error")
			}
			return
		}
		again, err := p.Encode()
		if err != nil || again != strings.ToLower(strings.Join(strings.Fields(text), "")) {
			t.Fatalf("%q became %q, %v", text, again, err)
		}
	})
}

func FuzzParseIDs(f *testing.F) {
	f.Add(string(NewNodeID()))
	f.Add(string(mustSite(f).ID()))
	f.Add(string(NewSecret().Invite()))
	f.Fuzz(func(t *testing.T, s string) {
		for _, parse := range []func(string) (string, error){
			func(s string) (string, error) { id, err := ParseNodeID(s); return string(id), err },
			func(s string) (string, error) { id, err := ParseSiteID(s); return string(id), err },
			func(s string) (string, error) { id, err := ParseInviteID(s); return string(id), err },
		} {
			id, err := parse(s)
			if err != nil {
				if id != "" {
					t.Fatal("a value came with an error")
				}
				continue
			}
			if again, err := parse(id); err != nil || again != id {
				t.Fatalf("%q: %q, %v", id, again, err)
			}
		}
	})
}

func randomBytes(n int) []byte { b := make([]byte, n); rand.Read(b); return b }
