package pairing

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"github.com/handrail-dev/handrail/capabilities"
)

// The handshake is one message each way on a stream of its own:
//
//	node                                    gateway
//	Offer{invite, proof, who I am}   ──▶
//	                                 ◀──    Verdict{state, node ID, proof | code}
//
// The node's proof is a signature (Ed25519) by a key made from the paste's secret, of
// which the gateway keeps the public half only; the gateway's is an HMAC under another
// key made from it. Both are over what the two ends share (Session): the TLS exporter
// binds them to this connection, and the node's key is named besides, because TLS 1.3
// takes the exporter before the client's certificate (RFC 8446 7.5).
//
// A message is
//
//	+--------------+---------------------------+
//	| length u32 BE| fields: (len u16 BE, data)*|
//	+--------------+---------------------------+
//
// and its first field says which message it is.
const (
	offerTag   = "handrail offer 1"
	verdictTag = "handrail verdict 1"
	maxMessage = 64 << 10
	maxFields  = 512
	maxText    = 200
)

// ExporterLabel is the TLS exporter label whose 32 bytes are Session.Binding.
const ExporterLabel = "EXPORTER-handrail-pairing"

// Session is what both ends of a connection know and nobody else does.
type Session struct {
	Binding []byte            // 32 bytes of ExporterLabel, no context
	Node    ed25519.PublicKey // the key of the node's certificate
}

// Profile is what a device says about itself. People see it when they decide;
// nothing is decided from it.
type Profile struct {
	Label    string `json:"label,omitempty"`
	Host     string `json:"host,omitempty"`
	Platform string `json:"platform,omitempty"` // goos
	Arch     string `json:"arch,omitempty"`     // goarch
	Agent    string `json:"agent_version,omitempty"`
	// Offers is what the device could do, for the person who sets its allowlist.
	Offers []capabilities.CapabilityID `json:"offers,omitempty"`
}

// Offer is a device's wish to join. Without Invite it asks again about a key that
// the gateway knows already.
type Offer struct {
	Invite  InviteID
	Profile Profile
	proof   []byte
}

// Verdict is the gateway's answer: a state with the node's ID, or the code of the
// refusal.
type Verdict struct {
	State   State
	Node    capabilities.NodeID
	Code    capabilities.Code // set for refusals
	Message string            // for the person at the device
	proof   []byte
}

// Err returns the refusal as an error, nil if there is none.
func (v *Verdict) Err() error {
	if v.Code == "" {
		return nil
	}
	return &capabilities.Error{Code: v.Code, Message: v.Message}
}

// Join is the node's side of the handshake. A zero secret asks again without a
// paste. The error is the gateway's refusal, or CodeSiteMismatch if the gateway
// cannot prove that it made the paste.
func Join(rw io.ReadWriter, session Session, secret Secret, profile Profile) (*Verdict, error) {
	o := &Offer{Profile: profile.clean()}
	var key ProofKey
	if !secret.IsZero() {
		key = secret.ProofKey()
		o.Invite = secret.Invite()
		o.proof = ed25519.Sign(secret.signer(), o.statement(session))
	}
	if _, err := rw.Write(o.encode()); err != nil {
		return nil, err
	}
	v, err := readVerdict(rw)
	if err != nil {
		return nil, err
	}
	if err := v.Err(); err != nil {
		return nil, err
	}
	if !secret.IsZero() && !hmac.Equal(v.proof, v.prove(key, session, o)) {
		return nil, capabilities.Errorf(capabilities.CodeSiteMismatch, "The gateway could not prove that the pairing code is its own.")
	}
	return v, nil
}

// Answer is the gateway's side: it reads one offer, asks decide, and sends what that returns.
// decide gets the offer and a function that checks its proof; for an offer with an invite it must
// check before it tells anything about the invite, and return the key, so that the gateway's own
// proof can be made. An error of decide is sent as a refusal with its code and public message.
func Answer(rw io.ReadWriter, session Session,
	decide func(o *Offer, proved func(ProofKey) bool) (*Verdict, ProofKey, error)) (*Verdict, error) {
	o, err := readOffer(rw)
	if err != nil {
		return nil, err
	}
	v, key, refusal := decide(o, func(k ProofKey) bool {
		return o.Invite != "" && !k.secret.IsZero() && ed25519.Verify(k.public(), o.statement(session), o.proof)
	})
	if refusal != nil {
		e := capabilities.AsError(refusal)
		v = &Verdict{Code: e.Code, Message: capabilities.Clip(e.PublicMessage(), maxText)}
	} else if o.Invite != "" {
		v.proof = v.prove(key, session, o)
	}
	if _, err := rw.Write(v.encode()); err != nil {
		return nil, err
	}
	return v, refusal
}

// statement is what a device signs.
func (o *Offer) statement(s Session) []byte {
	return mac(nil, append([]string{"node", string(s.Binding), string(s.Node)}, o.fields()...)...)
}

func (v *Verdict) prove(k ProofKey, s Session, o *Offer) []byte {
	return mac(k.answers(), "gateway", string(s.Binding), string(s.Node), string(o.proof), string(v.State), string(v.Node))
}

// RotationStatement is what a new leaf key signs to prove itself: this site, this
// node and this connection.
func RotationStatement(site capabilities.SiteID, node capabilities.NodeID, binding []byte) []byte {
	return mac(nil, "handrail rotate", string(site), string(node), string(binding))
}

// fields are those that the proof covers: all but the proof.
func (o *Offer) fields() []string {
	p := o.Profile
	f := []string{offerTag, string(o.Invite), p.Label, p.Host, p.Platform, p.Arch, p.Agent}
	for _, c := range p.Offers {
		f = append(f, string(c))
	}
	return f
}

func (o *Offer) encode() []byte {
	f := o.fields()
	return encodeFields(append([]string{f[0], string(o.proof)}, f[1:]...))
}

func decodeOffer(body []byte) (*Offer, error) {
	f, err := decodeFields(body, offerTag, 8, maxFields)
	if err != nil {
		return nil, err
	}
	o := &Offer{
		proof:   []byte(f[1]),
		Invite:  InviteID(f[2]),
		Profile: Profile{Label: f[3], Host: f[4], Platform: f[5], Arch: f[6], Agent: f[7]},
	}
	if o.Invite != "" {
		if id, err := ParseInviteID(f[2]); err != nil || id != o.Invite {
			return nil, malformed("the invite ID is not one")
		}
	}
	// Older programs send 32 bytes, which prove nothing any more; they are told so.
	if n := len(o.proof); (n != 0) != (o.Invite != "") || n != 0 && n != sha256.Size && n != ed25519.SignatureSize {
		return nil, malformed("an invite comes with a proof of 64 bytes")
	}
	for _, c := range f[8:] {
		id := capabilities.CapabilityID(c)
		if id.Validate() != nil {
			return nil, malformed("an offered capability is not an ID")
		}
		o.Profile.Offers = append(o.Profile.Offers, id)
	}
	for _, s := range f[3:8] {
		if !plain(s) {
			return nil, malformed("a text of the profile is too long or not plain")
		}
	}
	return o, nil
}

func (v *Verdict) encode() []byte {
	return encodeFields([]string{verdictTag, string(v.proof), string(v.State), string(v.Node), string(v.Code), v.Message})
}

func decodeVerdict(body []byte) (*Verdict, error) {
	f, err := decodeFields(body, verdictTag, 6, 6)
	if err != nil {
		return nil, err
	}
	v := &Verdict{proof: []byte(f[1]), State: State(f[2]), Node: capabilities.NodeID(f[3]), Code: capabilities.Code(f[4]), Message: f[5]}
	if !plain(v.Message) || len(v.proof) > 32 {
		return nil, malformed("a text is too long or not plain")
	}
	if v.Code != "" {
		if !v.Code.Known() {
			v.Code = capabilities.CodeInternal
		}
		return &Verdict{Code: v.Code, Message: v.Message}, nil
	}
	if _, err := ParseState(f[2]); err != nil {
		return nil, malformed("there is neither a state nor a code")
	}
	if id, err := ParseNodeID(f[3]); err != nil || id != v.Node {
		return nil, malformed("the node ID is not one")
	}
	return v, nil
}

func encodeFields(fields []string) []byte {
	out := make([]byte, 4, 256)
	for _, f := range fields {
		out = binary.BigEndian.AppendUint16(out, uint16(len(f)))
		out = append(out, f...)
	}
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}

func decodeFields(body []byte, tag string, least, most int) ([]string, error) {
	var fields []string
	for len(body) > 0 {
		if len(body) < 2 || len(body)-2 < int(binary.BigEndian.Uint16(body)) || len(fields) == most {
			return nil, malformed("it is not made of whole fields, or of too many")
		}
		n := int(binary.BigEndian.Uint16(body))
		fields = append(fields, string(body[2:2+n]))
		body = body[2+n:]
	}
	if len(fields) < least || fields[0] != tag {
		return nil, malformed("it is not a " + tag)
	}
	return fields, nil
}

func readMessage(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return nil, capabilities.Errorf(capabilities.CodeBodyTooLarge, "a pairing message of %d bytes is larger than %d", n, maxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return body, nil
}

func readOffer(r io.Reader) (*Offer, error) {
	body, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	return decodeOffer(body)
}

func readVerdict(r io.Reader) (*Verdict, error) {
	body, err := readMessage(r)
	if err != nil {
		return nil, err
	}
	return decodeVerdict(body)
}

func malformed(why string) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "the pairing message is not well formed: %s", why)
}

// clean makes the profile one that the other side accepts.
func (p Profile) clean() Profile {
	for _, s := range []*string{&p.Label, &p.Host, &p.Platform, &p.Arch, &p.Agent} {
		*s = capabilities.Clip(capabilities.Printable(*s), maxText)
	}
	offers := p.Offers
	p.Offers = nil
	for _, c := range offers {
		if c.Validate() == nil && len(p.Offers) < maxFields-8 {
			p.Offers = append(p.Offers, c)
		}
	}
	return p
}

// plain reports whether a text from the other side can be shown to a person as it
// is: no control characters that would rewrite a terminal.
func plain(s string) bool {
	return len(s) <= maxText && capabilities.Printable(s) == s
}
