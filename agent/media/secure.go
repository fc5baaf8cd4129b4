package media

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pion/dtls/v3"
	"github.com/pion/rtp"
	"github.com/pion/srtp/v3"
	"github.com/pion/transport/v4/packetio"
)

// newCertificate makes the certificate of one peer, which is known by its digest in
// the answer and by nothing else, so no two viewers see the same.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	form := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "WebRTC"},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// digestOf returns a certificate's SHA-256 as SDP writes it.
func digestOf(der []byte) string {
	sum := sha256.Sum256(der)
	var b strings.Builder
	for i, x := range sum {
		if i > 0 {
			b.WriteByte(':')
		}
		b.WriteString(strings.ToUpper(hex.EncodeToString([]byte{x})))
	}
	return b.String()
}

// matches reports whether der is the certificate of one of the digests. Older hashes
// than SHA-256 count for nothing.
func matches(der []byte, prints []fingerprint) bool {
	for _, p := range prints {
		want, err := hex.DecodeString(strings.ReplaceAll(p.digest, ":", ""))
		if err != nil {
			continue
		}
		var got []byte
		switch p.hash {
		case "sha-256":
			sum := sha256.Sum256(der)
			got = sum[:]
		case "sha-384":
			sum := sha512.Sum384(der)
			got = sum[:]
		case "sha-512":
			sum := sha512.Sum512(der)
			got = sum[:]
		default:
			continue
		}
		if bytes.Equal(got, want) {
			return true
		}
	}
	return false
}

var errStranger = errors.New("media: the viewer's certificate is not the one of its offer")

// handshake makes the DTLS connection of a peer; nobody counts but the viewer whose
// fingerprint is in the offer.
func handshake(via net.PacketConn, o *offer, own tls.Certificate) (*dtls.Conn, error) {
	options := []dtls.Option{
		dtls.WithCertificates(own),
		dtls.WithSRTPProtectionProfiles(dtls.SRTP_AEAD_AES_256_GCM, dtls.SRTP_AEAD_AES_128_GCM, dtls.SRTP_AES128_CM_HMAC_SHA1_80),
		dtls.WithInsecureSkipVerify(true), // no authority certifies a viewer; the next line does
		dtls.WithVerifyPeerCertificate(func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || !matches(raw[0], o.prints) {
				return errStranger
			}
			return nil
		}),
	}
	if o.client() {
		all := make([]dtls.ClientOption, 0, len(options))
		for _, one := range options {
			all = append(all, one)
		}
		return dtls.ClientWithOptions(via, via.LocalAddr(), all...)
	}
	all := []dtls.ServerOption{dtls.WithClientAuth(dtls.RequireAnyClientCert)}
	for _, one := range options {
		all = append(all, one)
	}
	return dtls.ServerWithOptions(via, via.LocalAddr(), all...)
}

// seal is SRTP both ways, with the keys that a handshake left (RFC 5764).
type seal struct {
	conn io.Writer

	mu   sync.Mutex // above what follows
	out  *srtp.Context
	in   *srtp.Context
	head rtp.Header
	buf  []byte
	open []byte
}

func newSeal(conn io.Writer, d *dtls.Conn, client bool) (*seal, error) {
	chosen, ok := d.SelectedSRTPProtectionProfile()
	state, had := d.ConnectionState()
	if !ok || !had {
		return nil, errors.New("media: the viewer agreed on no SRTP")
	}
	// Both registries number the profiles alike.
	c := srtp.Config{Profile: srtp.ProtectionProfile(chosen)}
	if err := c.ExtractSessionKeysFromDTLS(&state, client); err != nil {
		return nil, err
	}
	out, err := srtp.CreateContext(c.Keys.LocalMasterKey, c.Keys.LocalMasterSalt, c.Profile)
	if err != nil {
		return nil, err
	}
	in, err := srtp.CreateContext(c.Keys.RemoteMasterKey, c.Keys.RemoteMasterSalt, c.Profile, srtp.SRTCPReplayProtection(64))
	if err != nil {
		return nil, err
	}
	return &seal{conn: conn, out: out, in: in}, nil
}

// packet seals a packet of video and sends it.
func (s *seal) packet(h *rtp.Header, payload []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := h.MarshalSize()
	s.open = append(s.open[:0], make([]byte, head)...)
	if _, err := h.MarshalTo(s.open); err != nil {
		return 0, err
	}
	s.open = append(s.open, payload...)
	sealed, err := s.out.EncryptRTP(s.buf[:0], s.open, &s.head)
	if err != nil {
		return 0, err
	}
	s.buf = sealed
	return s.conn.Write(sealed)
}

// report seals a packet of RTCP and sends it.
func (s *seal) report(raw []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sealed, err := s.out.EncryptRTCP(nil, raw, nil)
	if err != nil {
		return 0, err
	}
	return s.conn.Write(sealed)
}

// unseal opens what the viewer reports; only one goroutine calls it.
func (s *seal) unseal(sealed []byte) ([]byte, error) { return s.in.DecryptRTCP(nil, sealed, nil) }

// parcels are the packets of a handshake that came by the common way, as net's
// interface has them.
type parcels struct {
	net.Conn // what is sent goes out there; nothing is read
	in       *packetio.Buffer
}

// ReadFrom returns the next.
func (p parcels) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := p.in.Read(b)
	return n, p.RemoteAddr(), err
}

// WriteTo sends one; there is only one address.
func (p parcels) WriteTo(b []byte, _ net.Addr) (int, error) { return p.Write(b) }

// Close ends reading; the way stays its owner's.
func (p parcels) Close() error { return p.in.Close() }

// SetDeadline bounds reading; sending does not wait.
func (p parcels) SetDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetReadDeadline bounds reading.
func (p parcels) SetReadDeadline(t time.Time) error { return p.in.SetReadDeadline(t) }

// SetWriteDeadline has nothing to bound.
func (p parcels) SetWriteDeadline(time.Time) error { return nil }
