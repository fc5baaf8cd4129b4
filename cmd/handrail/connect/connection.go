package connect

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/command"
	"github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/pairing"
)

// Connection is what is kept of a client that was connected: who it is to the
// gateway, and where its entry was put.
type Connection struct {
	Client    string
	Site      string // of the gateway
	URL       string // base URL of the gateway; "": the one that runs on the data directory
	Pin       string // fingerprint of the certificate at URL; "": an authority stands behind it
	Principal string
	TokenID   string
	Token     client.Token
	Transport string // stdio or http
	Node      string // bound to its lane; "" for none
	File      string // of the client; "": only printed
}

// connectionFile is its form on disk, clients/NAME.json of the data directory,
// which only its owner can read.
type connectionFile struct {
	Version   int    `json:"version"` // 1
	Client    string `json:"client"`
	Site      string `json:"site_id"`
	URL       string `json:"url,omitempty"`
	Pin       string `json:"fingerprint,omitempty"`
	Principal string `json:"principal"`
	TokenID   string `json:"token_id"`
	Token     string `json:"token"`
	Transport string `json:"transport"`
	Node      string `json:"node_id,omitempty"`
	File      string `json:"file,omitempty"`
}

const connectionVersion = 1

// Store keeps connections, each in a file of its own below one folder that only its owner can
// enter.
type Store struct{ Dir string }

// Path is where the connection of a client is kept; name is one of Names.
func (s Store) Path(name string) string { return filepath.Join(s.Dir, name+".json") }

// Read returns the connection of a client; ok: there is one.
func (s Store) Read(name string) (c Connection, ok bool, err error) {
	path := s.Path(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	var f connectionFile
	if err := json.Unmarshal(data, &f); err != nil || f.Version != connectionVersion {
		return c, false, command.Advise(capabilities.Errorf(capabilities.CodeConflict, "%s is not a file that this version reads", path),
			"Delete it and run ", command.Here("connect", name), ".")
	}
	return Connection{
		Client: f.Client, Site: f.Site, URL: f.URL, Pin: f.Pin, Principal: f.Principal, TokenID: f.TokenID, Token: client.NewToken(f.Token),
		Transport: f.Transport, Node: f.Node, File: f.File,
	}, true, nil
}

func (s Store) save(c Connection) error {
	data, err := json.MarshalIndent(connectionFile{
		Version: connectionVersion, Client: c.Client, Site: c.Site, URL: c.URL, Pin: c.Pin, Principal: c.Principal, TokenID: c.TokenID,
		Token: c.Token.Reveal(), Transport: c.Transport, Node: c.Node, File: c.File,
	}, "", "  ")
	if err != nil {
		return err
	}
	return pairing.SaveFile(s.Path(c.Client), append(data, '\n')) // mode 0600
}

// Reach finds the gateway of a connection, with the client's own token.
func (s Site) Reach(c Connection) (Gateway, error) {
	base, pin, err := s.placeOf(c)
	if err != nil {
		return Gateway{}, err
	}
	return at(base, c.Token, pin), nil
}

func (s Site) placeOf(c Connection) (base *url.URL, pin client.Pin, err error) {
	if c.URL == "" {
		return s.Running()
	}
	if base, err = client.ParseAddress(c.URL); err == nil {
		pin, err = client.ParsePin(c.Pin)
	}
	if err != nil {
		return nil, pin, capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway's address: %v", err)
	}
	return base, pin, nil
}
