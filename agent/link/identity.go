package link

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/pairing"
)

// Identity is what a node is to its site.
type Identity struct {
	Site  capabilities.SiteID
	Node  capabilities.NodeID
	Addrs []string // where the gateway was when the node joined
	// Gateways are the site's gateways by their addresses, as one of them said last.
	Gateways [][]string
	Label    string
	Trust    string
	Key      ed25519.PrivateKey
	// Door is where the gateway serves HTTPS and by which certificate, if the paste said
	// so; else its zero value.
	Door Door
	// Mark is the highest generation of the site that a gateway has proven.
	Mark pairing.Mark
	// Cert is nil while the site has not approved the node yet, or after it ended.
	Cert *x509.Certificate
}

// Door is a gateway's HTTPS with a certificate that is known by its fingerprint.
type Door struct {
	Addr string `json:"address"` // host:port
	Sum  []byte `json:"sha256"`  // of the certificate
}

// Pending reports whether the node has no certificate to say hello with.
func (id *Identity) Pending() bool { return id.Cert == nil }

const (
	identityFile = "identity.json"
	keyFile      = "node.key"
	// nextKeyFile holds the key that is being introduced to a site. It is written
	// before the site hears of it and renamed after identity.json names it, so that
	// at every moment one of the two files has the key that the identity means.
	nextKeyFile = "node.key.next"
)

type identityJSON struct {
	Version     int                 `json:"version"`
	Site        capabilities.SiteID `json:"site_id"`
	Node        capabilities.NodeID `json:"node_id"`
	Addrs       []string            `json:"addrs"`
	Gateways    [][]string          `json:"gateways,omitempty"`
	Label       string              `json:"label,omitempty"`
	Trust       string              `json:"trust,omitempty"`
	Fingerprint string              `json:"key_fingerprint"`
	Door        *Door               `json:"door,omitempty"`
	Cert        []byte              `json:"cert,omitempty"` // DER
	Generation  uint64              `json:"generation,omitempty"`
	Proof       []byte              `json:"generation_proof,omitempty"`
}

// LoadIdentity reads the identity kept in dir. A device that never joined has none:
// fs.ErrNotExist.
func LoadIdentity(dir string) (*Identity, error) {
	data, err := os.ReadFile(filepath.Join(dir, identityFile))
	if err != nil {
		return nil, err
	}
	damaged := func(cause error) (*Identity, error) {
		return nil, capabilities.Wrap(capabilities.CodeInternal, cause, "The node's identity in "+dir+" is damaged.").
			WithAction(capabilities.Action{Key: capabilities.ActionJoinSite}, "Pair it again.")
	}
	var j identityJSON
	if err := json.Unmarshal(data, &j); err != nil || j.Version != 1 {
		return damaged(err)
	}
	if _, err := pairing.ParseSiteID(string(j.Site)); err != nil || len(j.Addrs) == 0 {
		return damaged(err)
	}
	id := &Identity{
		Site: j.Site, Node: j.Node, Addrs: j.Addrs, Label: j.Label, Trust: j.Trust, Mark: pairing.Mark{Generation: j.Generation, Proof: j.Proof},
	}
	if id.Key, err = keyNamed(dir, j.Fingerprint); err != nil {
		return damaged(err)
	}
	if known(j.Gateways) {
		id.Gateways = j.Gateways
	}
	if j.Door != nil && len(j.Door.Sum) == sha256.Size {
		id.Door = *j.Door
	}
	if len(j.Cert) > 0 {
		cert, err := x509.ParseCertificate(j.Cert)
		if err != nil {
			return damaged(err)
		}
		// A certificate for another key is of no use; the site makes a new one.
		if pub, ok := cert.PublicKey.(ed25519.PublicKey); ok && pub.Equal(id.Key.Public()) {
			id.Cert = cert
		}
	}
	return id, nil
}

// keyNamed returns the key with that fingerprint, and finishes a change of keys that
// was interrupted between its two files.
func keyNamed(dir, fingerprint string) (ed25519.PrivateKey, error) {
	key, err := pairing.LoadKey(filepath.Join(dir, keyFile))
	if err == nil && fingerprintOf(key) == fingerprint {
		return key, nil
	}
	next, nextErr := pairing.LoadKey(filepath.Join(dir, nextKeyFile))
	if nextErr == nil && fingerprintOf(next) == fingerprint {
		return next, os.Rename(filepath.Join(dir, nextKeyFile), filepath.Join(dir, keyFile))
	}
	if errors.Is(nextErr, fs.ErrNotExist) {
		nextErr = nil
	}
	return nil, errors.Join(err, nextErr, errors.New("no key file has the key of the identity"))
}

func fingerprintOf(key ed25519.PrivateKey) string {
	return pairing.Fingerprint(key.Public().(ed25519.PublicKey))
}

// save writes the identity. Its key must be in one of the two key files already.
func (id *Identity) save(dir string) error {
	j := identityJSON{
		Version: 1, Site: id.Site, Node: id.Node, Addrs: id.Addrs, Label: id.Label, Trust: id.Trust, Fingerprint: fingerprintOf(id.Key),
		Generation: id.Mark.Generation, Proof: id.Mark.Proof,
	}
	j.Gateways = id.Gateways
	if id.Door.Addr != "" {
		j.Door = &id.Door
	}
	if id.Cert != nil {
		j.Cert = id.Cert.Raw
	}
	data, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	if err := pairing.SaveFile(filepath.Join(dir, identityFile), append(data, '\n')); err != nil {
		return err
	}
	_, err = keyNamed(dir, j.Fingerprint)
	return err
}
