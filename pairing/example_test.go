package pairing_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"net"

	"github.com/handrail-dev/handrail/pairing"
)

// A device joins with the secret of an invitation. Both sides are on one TLS connection,
// whose exporter they share; here it is a pipe.
func ExampleJoin() {
	device, gateway := net.Pipe()
	key, err := pairing.NewKey()
	if err != nil {
		panic(err)
	}
	secret := pairing.NewSecret()
	session := pairing.Session{Binding: bytes.Repeat([]byte{7}, 32), Node: key.Public().(ed25519.PublicKey)}
	go func() {
		_, _ = pairing.Answer(gateway, session, func(o *pairing.Offer, proved func(pairing.ProofKey) bool) (*pairing.Verdict, pairing.ProofKey, error) {
			if !proved(secret.ProofKey()) {
				return nil, pairing.ProofKey{}, fmt.Errorf("no such invitation")
			}
			return &pairing.Verdict{State: pairing.StatePending, Node: pairing.NewNodeID()}, secret.ProofKey(), nil
		})
	}()
	verdict, err := pairing.Join(device, session, secret, pairing.Profile{Label: "desk"})
	if err != nil {
		panic(err)
	}
	fmt.Println(verdict.State)
	// Output:
	// pending
}
