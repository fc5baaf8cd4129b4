package dispatch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
	"github.com/handrail-dev/handrail/gateway/drift"
	"github.com/handrail-dev/handrail/gateway/ledger"
	"github.com/handrail-dev/handrail/gateway/ledger/packet"
)

// maxEvents bounds the drift events of one call; one packet says how many more there were.
const maxEvents = 16

// drifted compares what the node saw with what the call was granted, and keeps an event for each
// difference, to be recorded with the call's end (S1-49, S1-65). A critical one makes the result
// void (S1-51): the error to answer with, or nil. Of a call of an earlier process the envelope is
// gone, and nothing is compared; its node compared as it ran.
func (c *openCall) drifted(a *wire.Answer) *capabilities.Error {
	if c.sealed == nil || c.events != nil {
		return nil
	}
	s := drift.Seen{Grants: c.sealed.Grants, Needed: c.sealed.Isolation}
	if c.node != "" { // what the gateway composes runs in its steps, each in a class of its own
		s.Given = a.Isolation
	}
	s.Session = c.desc != nil && c.desc.InSession()
	if g := c.decision.Given; g != "" && !g.Meets(s.Needed, s.Session) { // policy let it run so, on record
		s.Needed, s.Session = g, g == capabilities.ClassSession
	}
	for _, part := range [...]struct {
		category string
		keys     []string
	}{
		{"data.", c.sealed.Capabilities.Data}, {"execution.", c.sealed.Capabilities.Execution}, {"network.", c.sealed.Capabilities.Network},
		{"privileged.", c.sealed.Capabilities.Privileged}, {"ui.", c.sealed.Capabilities.UI},
	} {
		for _, k := range part.keys {
			s.Declared = append(s.Declared, part.category+k)
		}
	}
	for _, o := range a.Observed {
		s.Uses = append(s.Uses, drift.Use{Key: o.Key, Detail: o.Detail, Count: o.Count})
	}
	found := drift.Observed(s)
	if len(found) == 0 {
		return nil
	}
	voided := found[0].Severity == drift.Critical
	for i, one := range found {
		if i == maxEvents {
			c.events = append(c.events, c.draftDrift(ledger.KindDriftUncounted, packet.DriftUncounted{Events: uint32(len(found) - i), Severity: one.Severity, Call: c.id}))
			break
		}
		body := packet.Drift{
			ID: newDriftID(), EnvelopeHash: c.sealed.HashHex(), Profile: c.sealed.Profile, Snapshot: c.sealed.Snapshot, Key: plainKey(one.Key), Declared: one.Declared,
			Signal: one.Signal, Severity: one.Severity, Runner: runnerOf(c, a.Isolation), Evidence: strings.ToValidUTF8(one.Detail, "\uFFFD"), Count: one.Count, Response: drift.Recorded,
		}
		if one.Severity == drift.Critical {
			body.Response = drift.Killed
		}
		c.events = append(c.events, c.draftDrift(ledger.KindDrift, body))
	}
	if !voided || a.Status != capabilities.StatusOK {
		return nil
	}
	return &capabilities.Error{Code: capabilities.CodeDriftCritical}
}

func (c *openCall) draftDrift(kind ledger.Kind, body any) ledger.Draft {
	return ledger.Draft{Kind: kind, Call: c.id, Tool: c.tool, Principal: c.principal, Lane: c.lane, Node: c.node, Body: body}
}

// plainKey bounds what a node calls a key.
func plainKey(key string) string {
	return strings.ToValidUTF8(key[:min(len(key), 128)], "\uFFFD")
}

// runnerOf is the fingerprint of what carried a call out: its host, class and manifest, hashed.
func runnerOf(c *openCall, given capabilities.IsolationClass) string {
	sum := sha256.Sum256([]byte(string(c.node) + "\x00" + string(given) + "\x00" + c.sealed.ManifestHash))
	return hex.EncodeToString(sum[:8])
}

func newDriftID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "drift_" + hex.EncodeToString(b[:])
}
