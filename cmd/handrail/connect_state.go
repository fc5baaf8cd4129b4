package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/handrail-dev/handrail/capabilities"
	api "github.com/handrail-dev/handrail/gateway/client"
	"github.com/handrail-dev/handrail/pairing"
)

// token is a bearer token on its way to a header or a file; it prints as nothing.
type token struct{ text string }

func (t token) Format(f fmt.State, _ rune) { fmt.Fprint(f, "(token)") }
func (t token) LogValue() slog.Value       { return slog.StringValue("(token)") }

// MarshalJSON hides the token, like every other way of printing it.
func (t token) MarshalJSON() ([]byte, error) { return []byte(`"(token)"`), nil }

// connection is what is kept of a client that was connected: who it is to the
// gateway, and where its entry was put.
type connection struct {
	Client    string
	Site      string // of the gateway
	URL       string // base URL of the gateway; "": the one that runs on the data directory
	Pin       string // fingerprint of the certificate at URL; "": an authority stands behind it
	Principal string
	TokenID   string
	Token     token
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

// connectionPath is where the connection of a client is kept; name is one of
// clientNames.
func (d dataDir) connectionPath(name string) string {
	return filepath.Join(string(d), "clients", name+".json")
}

func (d dataDir) readConnection(name string) (c connection, ok bool, err error) {
	path := d.connectionPath(name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	var f connectionFile
	if err := json.Unmarshal(data, &f); err != nil || f.Version != connectionVersion {
		return c, false, capabilities.Errorf(capabilities.CodeConflict, "%s is not a file that this version reads", path).
			WithHint("Delete it and run 'handrail connect " + name + "'.")
	}
	return connection{
		Client: f.Client, Site: f.Site, URL: f.URL, Pin: f.Pin, Principal: f.Principal, TokenID: f.TokenID, Token: token{f.Token},
		Transport: f.Transport, Node: f.Node, File: f.File,
	}, true, nil
}

func (d dataDir) saveConnection(c connection) error {
	path := d.connectionPath(c.Client)
	if err := d.make(filepath.Dir(path)); err != nil {
		return err
	}
	data, err := json.MarshalIndent(connectionFile{
		Version: connectionVersion, Client: c.Client, Site: c.Site, URL: c.URL, Pin: c.Pin, Principal: c.Principal, TokenID: c.TokenID,
		Token: c.Token.text, Transport: c.Transport, Node: c.Node, File: c.File,
	}, "", "  ")
	if err != nil {
		return err
	}
	return pairing.SaveFile(path, append(data, '\n')) // mode 0600
}

// gatewayOf finds the gateway of a connection, with the client's own token.
func (d dataDir) gatewayOf(c connection) (*client, error) {
	if c.URL == "" {
		running, err := d.readRunning()
		if err != nil {
			return nil, err
		}
		base, pin, err := running.place()
		if err != nil {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway's address: %v", err)
		}
		return newClientAt(base, c.Token.text, pin), nil
	}
	base, err := api.ParseAddress(c.URL)
	pin := api.Pin{}
	if err == nil {
		pin, err = api.ParsePin(c.Pin)
	}
	if err != nil {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the gateway's address: %v", err)
	}
	return newClientAt(base, c.Token.text, pin), nil
}
