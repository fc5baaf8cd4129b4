package pushtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const within = 45 * time.Second

// Browser is a browser that has subscribed.
type Browser struct {
	key  *ecdh.PrivateKey
	auth []byte
}

// NewBrowser makes one.
func NewBrowser(t testing.TB) Browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := Browser{key, make([]byte, 16)}
	rand.Read(b.auth)
	return b
}

// P256dh is its public key, as a PushSubscription has it.
func (b Browser) P256dh() string {
	return base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes())
}

// Auth is its secret, as a PushSubscription has it.
func (b Browser) Auth() string { return base64.RawURLEncoding.EncodeToString(b.auth) }

func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

// Open opens a message as browsers do (RFC 8188 section 2, RFC 8291 section 3.4).
func (b Browser) Open(body []byte) ([]byte, error) {
	if len(body) < 86 || binary.BigEndian.Uint32(body[16:]) < uint32(len(body)-86) || body[20] != 65 {
		return nil, errors.New("the header is not that of one record")
	}
	salt, from, sealed := body[:16], body[21:86], body[86:]
	sender, err := ecdh.P256().NewPublicKey(from)
	if err != nil {
		return nil, err
	}
	shared, err := b.key.ECDH(sender)
	if err != nil {
		return nil, err
	}
	input := mac(mac(b.auth, string(shared)), "WebPush: info\x00", string(b.key.PublicKey().Bytes()), string(from), "\x01")
	prk := mac(salt, string(input))
	block, err := aes.NewCipher(mac(prk, "Content-Encoding: aes128gcm\x00\x01")[:16])
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, mac(prk, "Content-Encoding: nonce\x00\x01")[:12], sealed, nil)
	if err != nil {
		return nil, err
	}
	text := strings.TrimRight(string(plain), "\x00")
	if !strings.HasSuffix(text, "\x02") {
		return nil, errors.New("the record is not the last one")
	}
	return []byte(text[:len(text)-1]), nil
}

// Vouched checks what a push service checks of the header Authorization: the signature,
// for whom and until when (RFC 8292).
func Vouched(header, service string) error {
	rest, ok := strings.CutPrefix(header, "vapid t=")
	token, key, both := strings.Cut(rest, ", k=")
	parts := strings.Split(token, ".")
	if !ok || !both || len(parts) != 3 {
		return fmt.Errorf("%q is of another form", header)
	}
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return err
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return err
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(sig) != 64 {
		return fmt.Errorf("a signature of %d bytes: %v", len(sig), err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return errors.New("the signature does not fit")
	}
	var head struct{ Typ, Alg string }
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	for i, into := range []any{&head, &claims} {
		data, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			return err
		}
	}
	left := time.Until(time.Unix(claims.Exp, 0))
	if head.Typ != "JWT" || head.Alg != "ES256" || claims.Aud != service || left <= 0 || left > 24*time.Hour ||
		!strings.HasPrefix(claims.Sub, "https://") {
		return fmt.Errorf("it says %+v %+v", head, claims)
	}
	return nil
}

// Service is a push service on this host.
type Service struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	asked  int
	status func(n int, path string) int
	got    chan taken
}

// taken is a message that was taken.
type taken struct {
	head http.Header
	body []byte
}

// NewService runs one until the test ends.
func NewService(t testing.TB) *Service {
	s := &Service{t: t, got: make(chan taken, 256)}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 4097))
		if err != nil || len(body) > 4096 || r.Method != http.MethodPost {
			t.Errorf("%s of %d bytes: %v", r.Method, len(body), err)
		}
		s.mu.Lock()
		s.asked++
		n, status := s.asked, s.status
		s.mu.Unlock()
		code := http.StatusCreated
		if status != nil {
			code = status(n, r.URL.Path)
		}
		if code == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		if code == http.StatusCreated {
			s.got <- taken{r.Header, body}
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s
}

// Answer has the service answer so from now on: f is given the count of requests since,
// and the path.
func (s *Service) Answer(f func(n int, path string) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.status = 0, f
}

// Host is where it listens.
func (s *Service) Host() string { return strings.TrimPrefix(s.URL, "https://") }

// Left is how many messages were taken and not looked at.
func (s *Service) Left() int { return len(s.got) }

// Next waits for the next message and returns it as b opens it, with the headers that it came with.
func (s *Service) Next(b Browser) ([]byte, http.Header) {
	s.t.Helper()
	select {
	case m := <-s.got:
		text, err := b.Open(m.body)
		if err == nil {
			err = Vouched(m.head.Get("Authorization"), s.URL)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return text, m.head
	case <-time.After(within):
		s.t.Fatal("no message came")
		return nil, nil
	}
}
