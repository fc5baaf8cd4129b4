package remote

import (
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Paste is what an admin hands to a satellite, once: where the bus is, by which certificate it is
// known, and a one-time key.
//
//	satellite://SEED@HOST:PORT/NAME?sum=HEX&at=HOST2:PORT
//
// sum is SHA-256 of the bus's certificate; without it the certificate is checked as usual.
type Paste struct {
	Seed  string // of a user nkey that opens the door to joining and nothing else
	Name  string // the service: tool.NAME.ACTION
	Addrs []string
	Sum   string
}

const maxPaste = 1 << 10

// Encode returns the text: the one place the seed leaves by.
func (p Paste) Encode() string {
	u := url.URL{Scheme: "satellite", User: url.User(p.Seed), Path: "/" + p.Name}
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
	u.RawQuery = q.Encode()
	return u.String()
}

// ParsePaste reads a paste. Errors are CodePasteInvalid and name no secret.
func ParsePaste(text string) (Paste, error) {
	no := func(why string) (Paste, error) {
		return Paste{}, capabilities.Errorf(capabilities.CodePasteInvalid, "This is no code for a satellite: %s.", why)
	}
	text = strings.Join(strings.Fields(text), "")
	if len(text) > maxPaste {
		return no("it is too long")
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "satellite" || u.User == nil || u.Host == "" {
		return no("it must begin with satellite://")
	}
	p := Paste{
		Seed: u.User.Username(), Name: strings.TrimPrefix(u.Path, "/"), Addrs: append([]string{u.Host}, u.Query()["at"]...),
		Sum: u.Query().Get("sum"),
	}
	sum, err := hex.DecodeString(p.Sum)
	switch {
	case !strings.HasPrefix(p.Seed, "SU") || len(p.Seed) != 58:
		return no("its key is not complete")
	case !nameForm.MatchString(p.Name):
		return no("it names no service")
	case len(p.Addrs) > 6:
		return no("it has too many addresses")
	case p.Sum != "" && (err != nil || len(sum) != 32):
		return no("the certificate's sum is not complete")
	}
	return p, nil
}

// Ask is what one who holds a paste sends to join: who they are, in the words of their machine,
// and their own key. The same again asks how it stands.
type Ask struct {
	Key      string `json:"key"`      // public user nkey of the satellite
	Host     string `json:"host"`     // of the machine
	Platform string `json:"platform"` // such as "linux/amd64"
	Agent    string `json:"agent,omitempty"`
	// Sig is the key's signature over the paste's public key, base64url: whoever joins holds it.
	Sig string `json:"sig"`
}

// Verdict is the gateway's answer.
type Verdict struct {
	Satellite string              `json:"satellite_id,omitempty"`
	Service   string              `json:"service,omitempty"`
	State     string              `json:"state,omitempty"` // pending, approved, denied, revoked
	Site      capabilities.SiteID `json:"site_id,omitempty"`
	Code      capabilities.Code   `json:"code,omitempty"`
	Message   string              `json:"message,omitempty"`
}

const maxAsk = 2 << 10

// ReadAsk reads an ask.
func ReadAsk(data []byte) (a Ask, err error) {
	if err := read(data, canonical.Limits{MaxBytes: maxAsk}, &a); err != nil {
		return Ask{}, err
	}
	if !strings.HasPrefix(a.Key, "U") || len(a.Key) != 56 {
		return Ask{}, bad("key", "a public user nkey")
	}
	a.Host, a.Platform, a.Agent = oneLine(a.Host), oneLine(a.Platform), oneLine(a.Agent)
	return a, nil
}

func oneLine(s string) string { return capabilities.Clip(capabilities.Printable(s), 128) }
