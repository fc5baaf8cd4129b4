package push

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

const (
	maxEndpoint = 2048 // bytes of an address
	authBytes   = 16   // RFC 8291 section 3.2
	pointBytes  = 65   // a point of P-256, not compressed
	saltBytes   = 16
	recordSize  = 4096 // the largest message that every push service takes (RFC 8030 section 7.2)
	// padded is how long every message is before it is sealed: its length tells nothing.
	padded = 1024
)

// target is where one browser is told: an address at its push service, which is as good
// as a secret, and the keys with which the browser opens messages. It does not print.
type target struct {
	endpoint *url.URL
	key      *ecdh.PublicKey
	auth     []byte
}

// String hides all but the push service.
func (t target) String() string { return t.endpoint.Host }

// GoString hides all but the push service.
func (t target) GoString() string { return t.String() }

// LogValue hides all but the push service.
func (t target) LogValue() slog.Value { return slog.StringValue(t.String()) }

// origin is the push service, as RFC 8292 names it.
func (t target) origin() string { return "https://" + t.endpoint.Host }

func bad(format string, args ...any) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, format, args...)
}

// readTarget reads what a browser's PushSubscription says. The address is https, and
// its host one of services: a name, or the end of names behind a dot.
func readTarget(endpoint, key, auth string, services []string) (target, error) {
	if len(endpoint) > maxEndpoint {
		return target{}, bad("endpoint must be at most %d bytes", maxEndpoint)
	}
	u, ok := address.Web(endpoint)
	if !ok || u.Scheme != "https" {
		return target{}, bad("endpoint must be an https address, as the browser gave it")
	}
	if !known(u.Host, services) {
		return target{}, bad("%.100q is none of the push services that browsers use", u.Host).
			WithHint("Chrome, Edge, Firefox and Safari have known ones; another may be named where the gateway is started.")
	}
	point, err := decode(key)
	if err != nil || len(point) != pointBytes {
		return target{}, bad("p256dh must be a point of P-256 in base64url")
	}
	public, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return target{}, bad("p256dh must be a point of P-256 in base64url")
	}
	secret, err := decode(auth)
	if err != nil || len(secret) != authBytes {
		return target{}, bad("auth must be %d bytes in base64url", authBytes)
	}
	return target{endpoint: u, key: public, auth: secret}, nil
}

func decode(s string) ([]byte, error) {
	if len(s) > 2*pointBytes {
		return nil, bad("too long")
	}
	return base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "="))
}

// known reports whether a host is one of services.
func known(host string, services []string) bool {
	host = strings.ToLower(host)
	for _, s := range services {
		if host == s || strings.HasPrefix(s, ".") && strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}

// seal makes the body of a message that only the browser behind t can open (RFC 8291):
// one record of aes128gcm (RFC 8188), under a key that is new for this message.
//
//	salt 16 | record size, big endian, 4 | 65 | our public key 65 | AES-128-GCM(text | 2 | zeros)
func seal(t target, text []byte, ours *ecdh.PrivateKey, salt []byte, length int) ([]byte, error) {
	if length = max(length, len(text)); length+1+16 > recordSize-saltBytes-5-pointBytes {
		return nil, bad("a message of %d bytes is too long", len(text))
	}
	shared, err := ours.ECDH(t.key)
	if err != nil {
		return nil, err
	}
	from := ours.PublicKey().Bytes()
	input, err := derive(shared, t.auth, "WebPush: info\x00"+string(t.key.Bytes())+string(from), 32)
	if err != nil {
		return nil, err
	}
	key, err := derive(input, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := derive(input, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain := make([]byte, length+1)
	plain[copy(plain, text)] = 2 // the last record
	out := make([]byte, 0, recordSize)
	out = append(out, salt...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(append(out, pointBytes), from...)
	return gcm.Seal(out, nonce, plain, nil), nil
}

func derive(secret, salt []byte, info string, length int) ([]byte, error) {
	return hkdf.Key(sha256.New, secret, salt, info, length)
}

// sealed is seal with a key and a salt of its own.
func sealed(t target, text []byte) ([]byte, error) {
	ours, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltBytes)
	rand.Read(salt) // never fails (crypto/rand)
	return seal(t, text, ours, salt, padded)
}

// publicKey is a gateway's key as browsers and push services take it.
func publicKey(k *ecdsa.PrivateKey) (string, error) {
	point, err := k.PublicKey.Bytes()
	return base64.RawURLEncoding.EncodeToString(point), err
}

// vouchLife is how long a signature is good; RFC 8292 allows a day.
const vouchLife = 12 * time.Hour

// vouch says to a push service who sends (VAPID, RFC 8292): a JWT signed with ES256, and
// the key that the browser was told when it subscribed.
func vouch(k *ecdsa.PrivateKey, service, contact string, now time.Time) (string, error) {
	claims, err := json.Marshal(map[string]any{"aud": service, "exp": now.Add(vouchLife).Unix(), "sub": contact})
	if err != nil {
		return "", err
	}
	said := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	sum := sha256.Sum256([]byte(said))
	r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
	if err != nil {
		return "", err
	}
	size := (elliptic.P256().Params().BitSize + 7) / 8
	both := make([]byte, 2*size)
	r.FillBytes(both[:size])
	s.FillBytes(both[size:])
	public, err := publicKey(k)
	return "vapid t=" + said + "." + base64.RawURLEncoding.EncodeToString(both) + ", k=" + public, err
}
