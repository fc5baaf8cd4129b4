package pairing

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// A worker on another machine comes over HTTPS, as it calls later, and not by QUIC as a device
// does. It holds a paste of its own kind, and proves it by two signatures.

// WorkerPaste is what an admin hands to a worker on another machine, once: where the gateway is,
// by which certificate it is known, and a one-time key.
//
//	worker://SEED@HOST:PORT/NAME?sum=HEX&at=HOST2:PORT
//
// sum is SHA-256 of the certificate; without it the certificate is checked as usual. plain=1 stands
// for a gateway without TLS, which is reached on the same machine or by a tunnel that ends there.
type WorkerPaste struct {
	Key   ed25519.PrivateKey // opens the door to joining and nothing else
	Name  string
	Addrs []string // host:port, 1 to MaxAddrs, in the order to try
	Sum   string
	Plain bool
}

// maxWorkerPaste bounds the text of one.
const maxWorkerPaste = 1 << 10

var workerName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$`)

// CheckWorkerName refuses what is no name of a worker.
func CheckWorkerName(name string) error {
	if workerName.MatchString(name) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest,
		"a worker's name has 1 to 32 of a-z, 0-9 and hyphens, and begins and ends with a letter or digit")
}

// Encode returns the text: the one place the key leaves by.
func (p *WorkerPaste) Encode() string {
	u := url.URL{Scheme: "worker", User: url.User(keyText(p.Key.Seed())), Path: "/" + p.Name}
	q := url.Values{}
	for i, a := range p.Addrs {
		if i == 0 {
			u.Host = a
		} else {
			q.Add("at", a)
		}
	}
	if p.Sum != "" {
		q.Set("sum", p.Sum)
	}
	if p.Plain {
		q.Set("plain", "1")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Format hides the key whatever the verb.
func (p *WorkerPaste) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("(paste)")) }

// ParseWorkerPaste reads one. Errors are CodePasteInvalid and name no key.
func ParseWorkerPaste(text string) (*WorkerPaste, error) {
	no := func(why string) (*WorkerPaste, error) {
		return nil, capabilities.Errorf(capabilities.CodePasteInvalid, "This is no code for a worker: %s.", why)
	}
	text = strings.Join(strings.Fields(text), "")
	if len(text) > maxWorkerPaste {
		return no("it is too long")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "worker" || u.User == nil || u.Host == "" {
		return no("it must begin with worker://")
	}
	seed, err := base64.RawURLEncoding.DecodeString(u.User.Username())
	if err != nil || len(seed) != ed25519.SeedSize {
		return no("its key is not complete")
	}
	q := u.Query()
	p := &WorkerPaste{
		Key: ed25519.NewKeyFromSeed(seed), Name: strings.TrimPrefix(u.Path, "/"), Addrs: append([]string{u.Host}, q["at"]...),
		Sum: q.Get("sum"), Plain: q.Get("plain") == "1",
	}
	if CheckWorkerName(p.Name) != nil {
		return no("it names no worker")
	}
	if len(p.Addrs) > MaxAddrs {
		return no("it has too many addresses")
	}
	for _, a := range p.Addrs {
		if checkAddr(a) != nil {
			return no("an address of it is not host:port")
		}
	}
	if sum, err := hex.DecodeString(p.Sum); p.Sum != "" && (err != nil || len(sum) != 32) {
		return no("the certificate's sum is not complete")
	}
	return p, nil
}

// NewWorkerID makes the ID of a worker that was paired.
func NewWorkerID() string {
	var b [nodeBytes]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return format(kindWorker, b[:])
}

// WorkerAsk is what a worker says of itself to come in, and the same again to hear how it stands.
type WorkerAsk struct {
	Invite   string // public key of the paste, as text
	Key      string // the worker's own public key, as text
	Host     string // of its machine, in its own words, as what follows
	Platform string
	Agent    string
	Seq      int64 // grows with each ask: none counts twice
}

// said is what is signed: lines that nothing else of ours signs.
func (a *WorkerAsk) said() ([]byte, error) {
	fields := []string{"handrail worker asks to come in", a.Invite, a.Key, a.Host, a.Platform, a.Agent, fmt.Sprint(a.Seq)}
	for _, f := range fields {
		if strings.ContainsAny(f, "\r\n") || len(f) > 256 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "a word of a worker's is one line of at most 256 bytes")
		}
	}
	return []byte(strings.Join(fields, "\n")), nil
}

// Sign returns the key's signature over an ask, as text.
func (a *WorkerAsk) Sign(key ed25519.PrivateKey) (string, error) {
	said, err := a.said()
	if err != nil {
		return "", err
	}
	return keyText(ed25519.Sign(key, said)), nil
}

// Verify checks a signature over an ask: CodePasteInvalid.
func (a *WorkerAsk) Verify(key, sig string) error {
	said, err := a.said()
	if err != nil {
		return err
	}
	pub, err := base64.RawURLEncoding.DecodeString(key)
	if err == nil && len(pub) == ed25519.PublicKeySize {
		if raw, err := base64.RawURLEncoding.DecodeString(sig); err == nil && ed25519.Verify(pub, said, raw) {
			return nil
		}
	}
	return capabilities.Errorf(capabilities.CodePasteInvalid, "The key is not that of who signed.")
}

// KeyText is a public key as it is written.
func KeyText(key ed25519.PublicKey) string { return keyText(key) }

func keyText(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
