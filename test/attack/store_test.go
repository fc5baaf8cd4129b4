package attack

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/handrail-dev/handrail/agent/link"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/nodes"
	"github.com/handrail-dev/handrail/gateway/principal"
	"github.com/handrail-dev/handrail/pairing"
	"github.com/handrail-dev/handrail/test/site"
)

// A thief who has read the store, as in a copy of it, gets in by nothing that stands there: not
// as a token, a session, a login code or a password, and no device joins with the row of an
// invitation. A link that was used is used.
func TestACopyOfTheStoreLetsNobodyIn(t *testing.T) {
	t.Parallel()
	a := enter(t, site.Options{})
	admin := a.MustToken("root", principal.RoleAdmin)
	who, err := a.Tokens.Authenticate(admin)
	if err != nil {
		t.Fatal(err)
	}
	p, err := principal.NewPassword("four words in a row")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Tokens.AddUser(t.Context(), who, "ann", principal.RoleOperator, p); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Tokens.SignIn(t.Context(), "ann", p); err != nil {
		t.Fatal(err)
	}
	code, _, err := a.Tokens.Login(who, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Tokens.Redeem(t.Context(), code.Reveal()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Tokens.Redeem(t.Context(), code.Reveal()); err == nil {
		t.Error("a used link signs in again")
	}
	invite, paste, err := a.Nodes.Invite(t.Context(), nodes.InviteSpec{By: "root", AutoApprove: true, Uses: 5})
	if err != nil {
		t.Fatal(err)
	}

	cells := map[string][]string{}
	for _, table := range []string{"token", "user", "passkey", "invite"} {
		cells[table] = a.everyCell(table)
	}
	if len(cells["token"]) == 0 || len(cells["user"]) == 0 || len(cells["invite"]) == 0 {
		t.Fatalf("the store was not read: %d, %d, %d", len(cells["token"]), len(cells["user"]), len(cells["invite"]))
	}
	for table, list := range cells {
		for _, cell := range list {
			for _, prefix := range []string{"", "hrt_", "hrs_", "hrl_"} {
				text := prefix + cell
				if !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
					if status, _ := a.do(text, "GET", "/v1/whoami", ""); status == 200 {
						t.Errorf("a cell of %s is a token", table)
					}
				}
				if _, err := a.Tokens.Session(text); err == nil {
					t.Errorf("a cell of %s is a session", table)
				}
				if _, _, err := a.Tokens.Redeem(t.Context(), text); err == nil {
					t.Errorf("a cell of %s is a login code", table)
				}
			}
		}
	}
	for _, cell := range cells["user"] {
		if _, _, err := a.Tokens.SignIn(t.Context(), "ann", principal.TypedPassword(cell)); err == nil {
			t.Error("a cell of user is a password")
		}
	}
	before := len(a.Nodes.Snapshot())
	for _, cell := range cells["invite"] {
		for from := 0; from+32 <= len(cell); from += 32 {
			a.joinWith(invite.ID, []byte(cell), []byte(cell[from:from+32]))
		}
	}
	if n := len(a.Nodes.Snapshot()); n != before {
		t.Errorf("%d devices joined with what stands in the store", n-before)
	}
	paste.Addrs = []string{a.QUICAddr().String()}
	if _, err := link.Join(t.Context(), paste, link.JoinOptions{Dir: t.TempDir()}); err != nil || len(a.Nodes.Snapshot()) != before+1 { // the control
		t.Errorf("the paste itself: %v", err)
	}
}

// everyCell returns the texts and bytes that stand in a table.
func (a *arena) everyCell(table string) (cells []string) {
	a.t.Helper()
	rows, err := a.Store.Read().QueryContext(a.t.Context(), "SELECT * FROM "+table)
	if err != nil {
		a.t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		a.t.Fatal(err)
	}
	for rows.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		if err := rows.Scan(values...); err != nil {
			a.t.Fatal(err)
		}
		for _, v := range values {
			switch x := (*v.(*any)).(type) {
			case string:
				cells = append(cells, x)
			case []byte:
				cells = append(cells, string(x))
			}
		}
	}
	return cells
}

// joinWith asks to join by an invitation, with each proof that can be made of a key: an
// HMAC, and a signature by a key made of it.
func (a *arena) joinWith(id pairing.InviteID, whole, key []byte) {
	a.t.Helper()
	for _, secret := range [][]byte{whole, key} {
		for _, sign := range []bool{false, true} {
			own, cert := selfSigned(a.t)
			conn, err := quic.DialAddr(a.t.Context(), a.QUICAddr().String(), &tls.Config{
				MinVersion: tls.VersionTLS13, NextProtos: []string{wire.ALPN}, InsecureSkipVerify: true, Certificates: []tls.Certificate{cert},
			}, nil)
			if err != nil {
				a.t.Fatal(err)
			}
			stream, err := conn.OpenStreamSync(a.t.Context())
			if err != nil {
				a.t.Fatal(err)
			}
			state := conn.ConnectionState().TLS
			binding, err := state.ExportKeyingMaterial(pairing.ExporterLabel, nil, 32)
			if err != nil {
				a.t.Fatal(err)
			}
			rest := []string{"handrail offer 1", string(id), "thief", "", "", "", ""}
			stated := append([]string{"node", string(binding), string(own.Public().(ed25519.PublicKey))}, rest...)
			proof := macOf(secret, stated)
			if sign {
				seed := sha256.Sum256(secret)
				if len(secret) == ed25519.SeedSize {
					copy(seed[:], secret)
				}
				proof = ed25519.Sign(ed25519.NewKeyFromSeed(seed[:]), macOf(nil, stated))
			}
			var body []byte
			for _, f := range append([]string{rest[0], string(proof)}, rest[1:]...) {
				body = append(binary.BigEndian.AppendUint16(body, uint16(len(f))), f...)
			}
			_, _ = stream.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
			_, _ = io.CopyN(io.Discard, stream, 4) // its verdict begins
			_ = conn.CloseWithError(0, "")
		}
	}
}

// macOf is the sum of the pairing handshake.
func macOf(key []byte, parts []string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		io.WriteString(h, p)
	}
	return h.Sum(nil)
}

// selfSigned is a device that nobody knows yet.
func selfSigned(t *testing.T) (ed25519.PrivateKey, tls.Certificate) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := pairing.SelfSigned(key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return key, tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}
