package update

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// payloadType is what a signature of ours is about; none of another purpose passes.
const payloadType = "application/vnd.handrail.update+json"

// Bounds of what is fetched.
const (
	maxMetadata = 1 << 20
	maxProgram  = 512 << 20
)

// envelope is signed metadata, as DSSE has it.
type envelope struct {
	PayloadType string `json:"payloadType"`
	Payload     []byte `json:"payload"`
	Signatures  []struct {
		Sig []byte `json:"sig"`
	} `json:"signatures"`
}

// Metadata is what a release says of itself.
type Metadata struct {
	Version string          `json:"version"`
	Expires time.Time       `json:"expires"`
	Files   map[string]File `json:"files"` // by system and processor: linux/amd64
}

// File is a program of a release, beside its metadata.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func refused(format string, args ...any) *capabilities.Error {
	return capabilities.Errorf(capabilities.CodeUpdateRefused, format, args...)
}

// ParseKey reads a public Ed25519 key: PEM, or its 32 bytes in base64.
func ParseKey(text []byte) (ed25519.PublicKey, error) {
	bad := capabilities.Errorf(capabilities.CodeInvalidRequest, "That is no public Ed25519 key.").
		WithHint("Give the file with the release's public key: PEM, or its 32 bytes in base64.")
	if block, _ := pem.Decode(text); block != nil {
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, bad
		}
		if key, ok := parsed.(ed25519.PublicKey); ok {
			return key, nil
		}
		return nil, bad
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, bad
	}
	return raw, nil
}

// Verify returns the metadata in text if key signed it and it is valid at now.
func Verify(text []byte, key ed25519.PublicKey, now time.Time) (Metadata, error) {
	var e envelope
	var m Metadata
	if err := json.Unmarshal(text, &e); err != nil {
		return m, refused("There is no metadata of a release at that address.").
			WithHint("See that the URL names handrail-update.json of a release, and that it was not cut short.")
	}
	signed := false
	about := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
	for _, s := range e.Signatures {
		signed = signed || e.PayloadType == payloadType && ed25519.Verify(key, about, s.Sig)
	}
	if !signed {
		return m, refused("The metadata is not signed by the key that was named.").
			WithHint("Do not use it. See that the URL and the key are those that the publisher names.")
	}
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, refused("The metadata is of a form that this program does not know.").WithHint("Install this release by hand, once.")
	}
	if !now.Before(m.Expires) {
		return m, refused("The metadata was valid until %s.", m.Expires.Format(time.RFC3339)).
			WithHint("Ask the publisher for newer metadata, and look whether this machine's clock is right.")
	}
	if _, ok := parseVersion(m.Version); !ok {
		return m, refused("%.40q is no version.", m.Version).WithHint("Ask the publisher.")
	}
	for on, f := range m.Files {
		sum, err := hex.DecodeString(f.SHA256)
		if f.Name != path.Base(f.Name) || strings.ContainsAny(f.Name, "/\\?#%:") || strings.HasPrefix(f.Name, ".") || err != nil ||
			len(sum) != 32 || f.Size <= 0 || f.Size > maxProgram {
			return m, refused("The metadata is not valid for %.40q.", on).WithHint("Ask the publisher.")
		}
	}
	return m, nil
}

// parsed is a version: three numbers, and what comes before the release of them.
type parsed struct {
	numbers [3]uint64
	pre     []string
}

func parseVersion(text string) (parsed, bool) {
	var v parsed
	core, pre, hasPre := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 || hasPre && pre == "" || len(text) > 100 {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil || strconv.FormatUint(n, 10) != p {
			return v, false
		}
		v.numbers[i] = n
	}
	if hasPre {
		v.pre = strings.Split(pre, ".")
	}
	return v, true
}

// Newer reports whether both are versions of releases and a is the later one.
func Newer(a, b string) bool {
	x, okX := parseVersion(a)
	y, okY := parseVersion(b)
	return okX && okY && newer(x, y)
}

// newer reports whether a is a later version than b, as semantic versions are ordered.
func newer(a, b parsed) bool {
	for i := range a.numbers {
		if a.numbers[i] != b.numbers[i] {
			return a.numbers[i] > b.numbers[i]
		}
	}
	if len(a.pre) == 0 || len(b.pre) == 0 {
		return len(a.pre) == 0 && len(b.pre) > 0
	}
	for i := range min(len(a.pre), len(b.pre)) {
		x, y := a.pre[i], b.pre[i]
		if x == y {
			continue
		}
		n, errX := strconv.ParseUint(x, 10, 64)
		m, errY := strconv.ParseUint(y, 10, 64)
		switch {
		case errX == nil && errY == nil:
			return n > m
		case errX == nil || errY == nil:
			return errY == nil
		}
		return x > y
	}
	return len(a.pre) > len(b.pre)
}
