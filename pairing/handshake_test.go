package pairing

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

var profile = Profile{Label: "desk", Host: "host", Platform: "linux", Arch: "amd64", Agent: "0.1.0", Offers: []capabilities.CapabilityID{"tyrum.browser.click"}}

// shake runs both sides over a pipe.
func shake(t *testing.T, node, gateway Session, secret Secret, p Profile, decide func(*Offer, func(ProofKey) bool) (*Verdict, ProofKey, error)) (fromNode *Verdict, nodeErr, gatewayErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	done := make(chan error, 1)
	go func() {
		defer b.Close()
		_, err := Answer(b, gateway, decide)
		done <- err
	}()
	fromNode, nodeErr = Join(a, node, secret, p)
	a.Close()
	return fromNode, nodeErr, <-done
}

func TestHandshake(t *testing.T) {
	secret := NewSecret()
	s := Session{Binding: randomBytes(32), Node: pub(mustKey(t))}
	id := NewNodeID()
	var seen *Offer
	v, nodeErr, gwErr := shake(t, s, s, secret, profile, func(o *Offer, proved func(ProofKey) bool) (*Verdict, ProofKey, error) {
		seen = o
		if o.Invite != secret.Invite() || !proved(secret.ProofKey()) {
			t.Error("the proof does not hold")
		}
		if proved(NewSecret().ProofKey()) {
			t.Error("the proof holds for any key")
		}
		return &Verdict{State: StatePending, Node: id}, secret.ProofKey(), nil
	})
	if nodeErr != nil || gwErr != nil || v.State != StatePending || v.Node != id {
		t.Fatalf("%+v, %v, %v", v, nodeErr, gwErr)
	}
	if !reflect.DeepEqual(seen.Profile, profile) {
		t.Errorf("%+v", seen.Profile)
	}
}

func TestHandshakeProofIsBound(t *testing.T) {
	secret := NewSecret()
	good := Session{Binding: randomBytes(32), Node: pub(mustKey(t))}
	accept := func(o *Offer, proved func(ProofKey) bool) (*Verdict, ProofKey, error) {
		if !proved(secret.ProofKey()) {
			return nil, ProofKey{}, capabilities.Errorf(capabilities.CodePasteInvalid, "no")
		}
		return &Verdict{State: StatePending, Node: NewNodeID()}, secret.ProofKey(), nil
	}
	for name, node := range map[string]Session{
		"another connection": {Binding: randomBytes(32), Node: good.Node},
		"another node key":   {Binding: good.Binding, Node: pub(mustKey(t))},
	} {
		if _, err, _ := shake(t, node, good, secret, profile, accept); capabilities.CodeOf(err) != capabilities.CodePasteInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err, _ := shake(t, good, good, NewSecret(), profile, accept); capabilities.CodeOf(err) != capabilities.CodePasteInvalid {
		t.Errorf("another secret: %v", err)
	}
	// A gateway that takes anyone in but does not hold the paste.
	_, err, _ := shake(t, good, good, secret, profile, func(*Offer, func(ProofKey) bool) (*Verdict, ProofKey, error) {
		return &Verdict{State: StateApproved, Node: NewNodeID()}, NewSecret().ProofKey(), nil
	})
	if capabilities.CodeOf(err) != capabilities.CodeSiteMismatch {
		t.Errorf("an impostor: %v", err)
	}
}

func TestHandshakeRefusalAndResume(t *testing.T) {
	s := Session{Binding: randomBytes(32), Node: pub(mustKey(t))}
	_, nodeErr, gwErr := shake(t, s, s, NewSecret(), profile, func(*Offer, func(ProofKey) bool) (*Verdict, ProofKey, error) {
		return nil, ProofKey{}, capabilities.Errorf(capabilities.CodePasteUsed, "Used by node x.")
	})
	for _, err := range []error{nodeErr, gwErr} {
		if e := capabilities.AsError(err); e.Code != capabilities.CodePasteUsed || e.PublicMessage() != "Used by node x." {
			t.Errorf("%v", err)
		}
	}
	// A cause that is not public stays at the gateway.
	_, nodeErr, _ = shake(t, s, s, NewSecret(), profile, func(*Offer, func(ProofKey) bool) (*Verdict, ProofKey, error) {
		return nil, ProofKey{}, errors.New("table nodes is locked")
	})
	if e := capabilities.AsError(nodeErr); e.Code != capabilities.CodeInternal || strings.Contains(e.PublicMessage(), "locked") {
		t.Errorf("%v", nodeErr)
	}
	id := NewNodeID()
	v, nodeErr, _ := shake(t, s, s, Secret{}, profile, func(o *Offer, proved func(ProofKey) bool) (*Verdict, ProofKey, error) {
		if o.Invite != "" || proved(ProofKey{}) {
			t.Error("no paste proves nothing")
		}
		return &Verdict{State: StateApproved, Node: id}, ProofKey{}, nil
	})
	if nodeErr != nil || v.Node != id {
		t.Errorf("%+v, %v", v, nodeErr)
	}
}

// A device's word about itself is made harmless on its side and refused on the gateway's, because
// it is printed to the admin's terminal.
func TestProfileIsPlain(t *testing.T) {
	evil := Profile{Label: "a\x1b[2Jb", Host: strings.Repeat("é", 300), Platform: "\xff", Offers: []capabilities.CapabilityID{"nodot", "tyrum.a.b"}}
	o := &Offer{Profile: evil.clean()}
	got, err := decodeOffer(o.encode()[4:])
	if err != nil || got.Profile.Label != "a[2Jb" || len(got.Profile.Host) != maxText || len(got.Profile.Offers) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, p := range []Profile{{Label: evil.Label}, {Host: evil.Host}, {Platform: evil.Platform}, {Offers: evil.Offers}} {
		if got, err := decodeOffer((&Offer{Profile: p}).encode()[4:]); err == nil || got != nil {
			t.Errorf("%+v came through", p)
		}
	}
}

func TestOversizedMessageIsRefusedBeforeReading(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, maxMessage+1)
	rest := strings.NewReader(strings.Repeat("x", 100))
	_, err := readMessage(io.MultiReader(bytes.NewReader(head), rest))
	if capabilities.CodeOf(err) != capabilities.CodeBodyTooLarge || rest.Len() != 100 {
		t.Errorf("%v, %d left", err, rest.Len())
	}
	if _, err := readMessage(bytes.NewReader([]byte{0, 0, 0, 9, 1})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut: %v", err)
	}
}

func FuzzOffer(f *testing.F) {
	secret := secretFrom(make([]byte, secretBytes))
	o := &Offer{Invite: secret.Invite(), Profile: profile, proof: make([]byte, 32)}
	f.Add(o.encode()[4:])
	f.Add((&Offer{}).encode()[4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := decodeOffer(body)
		if err != nil {
			if o != nil {
				t.Fatal("a value came with an error")
			}
			return
		}
		if !bytes.Equal(o.encode()[4:], body) {
			t.Fatalf("%q became %q", body, o.encode()[4:])
		}
	})
}

func FuzzVerdict(f *testing.F) {
	f.Add((&Verdict{State: StatePending, Node: "n00000000000000000", proof: make([]byte, 32)}).encode()[4:])
	f.Add((&Verdict{State: StateApproved, Node: NewNodeID()}).encode()[4:])
	f.Add((&Verdict{Code: capabilities.CodePasteUsed, Message: "Used."}).encode()[4:])
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := decodeVerdict(body)
		if err != nil {
			if v != nil {
				t.Fatal("a value came with an error")
			}
			return
		}
		again, err := decodeVerdict(v.encode()[4:])
		if err != nil || !bytes.Equal(again.encode(), v.encode()) {
			t.Fatalf("%+v became %+v, %v", v, again, err)
		}
	})
}
