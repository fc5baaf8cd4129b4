package passkey

import (
	"encoding/base64"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/protocol/webauthncose"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/principal"
)

// go-webauthn verifies answers (WebAuthn level 3, sections 7.1 and 7.2): discoverable keys of the
// kinds below, the user verified, one origin, no frames. No maker's roots are given to it, so an
// attestation proves nothing here. The binding of the challenge is checked here before: the library
// only hears that it is the expected one.

// kinds are the keys that authenticators may make, best first.
var kinds = []protocol.CredentialParameter{
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgES256},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgEdDSA},
	{Type: protocol.PublicKeyCredentialType, Algorithm: webauthncose.AlgRS256},
}

// account is a user as the library wants one: with the one passkey that answers, or none.
type account struct {
	handle string
	keys   []webauthn.Credential
}

func (a account) WebAuthnID() []byte                         { return []byte(a.handle) }
func (a account) WebAuthnName() string                       { return "" }
func (a account) WebAuthnDisplayName() string                { return "" }
func (a account) WebAuthnCredentials() []webauthn.Credential { return a.keys }

var _ webauthn.User = account{}

// parse reads an answer of a page: base64url in JSON, at most MaxAnswer bytes.
func parse[T any](answer []byte, read func([]byte) (*T, error)) (*T, error) {
	if len(answer) > MaxAnswer {
		return nil, refused("it is too long")
	}
	parsed, err := read(answer)
	if err != nil {
		return nil, refusedFor(err, "it cannot be read")
	}
	return parsed, nil
}

// verifyCreation verifies what navigator.credentials.create returned in a session, and
// returns the new passkey and the challenge, which is not spent yet.
func (k *Keys) verifyCreation(answer []byte, at Place, session string) (principal.Passkey, string, error) {
	none := principal.Passkey{}
	parsed, err := parse(answer, protocol.ParseCredentialCreationResponseBytes)
	if err != nil {
		return none, "", err
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	if !k.good(challenge, toRegister, at, session, nil) {
		return none, "", errChallenge()
	}
	made, err := at.party.CreateCredential(account{}, webauthn.SessionData{
		Challenge: challenge, UserVerification: protocol.VerificationRequired, CredParams: kinds,
	}, parsed)
	if err != nil {
		return none, "", refusedFor(err, "it does not verify")
	}
	if _, err := webauthncose.ParsePublicKey(made.PublicKey); err != nil { // the library looks when it is used
		return none, "", refusedFor(err, "its key is of no kind that was asked for")
	}
	return principal.Passkey{
		ID: encode(made.ID), Key: made.PublicKey, Count: made.Authenticator.SignCount, Sync: made.Flags.BackupEligible,
	}, challenge, nil
}

// assertion is what an answer proves.
type assertion struct {
	id        string // of the passkey
	user      capabilities.PrincipalID
	count     uint32
	sync      bool
	challenge string
}

// verifyAssertion verifies what navigator.credentials.get returned to a challenge for
// that. The challenge is not spent yet, and the count is not compared yet.
func (k *Keys) verifyAssertion(answer []byte, at Place, p purpose, session string, what []byte) (assertion, error) {
	parsed, err := parse(answer, protocol.ParseCredentialRequestResponseBytes)
	if err != nil {
		return assertion{}, err
	}
	challenge := parsed.Response.CollectedClientData.Challenge
	if !k.good(challenge, p, at, session, what) {
		return assertion{}, errChallenge()
	}
	u, known, handle, err := k.opts.Users.Passkey(encode(parsed.RawID))
	if err != nil {
		return assertion{}, err
	}
	if known.Place != at.name {
		return assertion{}, refused("it is for another place")
	}
	who := account{handle: handle, keys: []webauthn.Credential{{
		ID: parsed.RawID, PublicKey: known.Key, Flags: webauthn.CredentialFlags{BackupEligible: known.Sync},
	}}}
	asked := webauthn.SessionData{Challenge: challenge, UserVerification: protocol.VerificationRequired}
	if p == toSignIn {
		_, _, err = at.party.ValidatePasskeyLogin(func(_, _ []byte) (webauthn.User, error) { return who, nil }, asked, parsed)
	} else { // the question named its keys: an authenticator may leave the handle out (section 6.3.3)
		asked.UserID = []byte(handle)
		_, err = at.party.ValidateLogin(who, asked, parsed)
	}
	if err != nil {
		return assertion{}, refusedFor(err, "it does not verify")
	}
	return assertion{
		id: known.ID, user: u.Principal, count: parsed.Response.AuthenticatorData.Counter, sync: known.Sync, challenge: challenge,
	}, nil
}

func errChallenge() error { return refused("it is not to what was asked here just now") }

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
