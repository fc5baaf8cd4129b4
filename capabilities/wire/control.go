package wire

import (
	"errors"
	"fmt"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
)

// Head is the signed head of one side's hash chain; the other side keeps the
// latest, so that truncation shows. The zero value is none.
type Head struct {
	Seq  uint64   `cbor:"1,keyasint,omitempty"`
	Hash [32]byte `cbor:"2,keyasint"`
	Time int64    `cbor:"3,keyasint,omitempty"` // Unix milliseconds
	Sig  []byte   `cbor:"4,keyasint,omitempty"` // Ed25519, 64 bytes, or none
}

// Hello opens the control stream. Nothing else is sent before its HelloAck: a
// dial that succeeded may still be refused (quic-go's accept queue).
type Hello struct {
	Version     uint32              `cbor:"1,keyasint"` // newest the node speaks
	MinVersion  uint32              `cbor:"2,keyasint"` // oldest it still speaks
	Node        capabilities.NodeID `cbor:"3,keyasint"`
	CatalogHash [32]byte            `cbor:"4,keyasint"`
	Agent       string              `cbor:"5,keyasint,omitempty"` // version of the node agent
	StopEpoch   uint64              `cbor:"6,keyasint,omitempty"`
	Stopped     bool                `cbor:"7,keyasint,omitempty"`
	Platform    string              `cbor:"8,keyasint,omitempty"` // goos
	Arch        string              `cbor:"9,keyasint,omitempty"` // goarch
	Host        string              `cbor:"10,keyasint,omitempty"`
	LogKey      []byte              `cbor:"11,keyasint,omitempty"` // Ed25519 key that signs LogHead
	LogHead     *Head               `cbor:"12,keyasint,omitempty"`
	SiteEpoch   uint64              `cbor:"13,keyasint,omitempty"` // of the site's stop switch, as the node knows it
	SiteStopped bool                `cbor:"14,keyasint,omitempty"`
	// Key 15 is taken: nodes of earlier versions said by it that they take such tickets as
	// key 21 of Ticket marked.
	Steps bool `cbor:"16,keyasint,omitempty"` // asks for each step of a call
	// Addrs are the addresses of the device's interfaces, 4 or 16 bytes each; none: the
	// node does not say.
	Addrs     [][]byte `cbor:"17,keyasint,omitempty"`
	TakesDone bool     `cbor:"18,keyasint,omitempty"` // takes SecretsDone
	Asks      bool     `cbor:"19,keyasint,omitempty"` // takes Questions
	Elicits   bool     `cbor:"20,keyasint,omitempty"` // takes tickets with Elicits
	AsksHosts bool     `cbor:"21,keyasint,omitempty"` // takes tickets with AsksHosts
	// Generation is the highest of its site that the node was told, and GenerationProof the site
	// key's signature over it (pairing.Mark).
	Generation      uint64 `cbor:"22,keyasint,omitempty"`
	GenerationProof []byte `cbor:"23,keyasint,omitempty"`
	// Recall names what the node's journal reaches back to without a gap, at most maxRecall bytes. The
	// node says another one when records may have been lost. "": it does not say.
	Recall string `cbor:"24,keyasint,omitempty"`
	Traces bool   `cbor:"25,keyasint,omitempty"` // takes tickets with Trace
}

// HelloAck makes the connection usable.
type HelloAck struct {
	Version uint32 `cbor:"1,keyasint"` // the version both speak from now on
	Gateway string `cbor:"2,keyasint"`
	// Epoch counts the connections of this node; a newer one has taken over from
	// every older.
	Epoch       uint64 `cbor:"3,keyasint"`
	HeartbeatMS uint32 `cbor:"4,keyasint"`
	// SequenceFloor: tickets of this connection have a higher sequence.
	SequenceFloor uint64   `cbor:"5,keyasint,omitempty"`
	GatewayHead   *Head    `cbor:"6,keyasint,omitempty"`
	Allow         []string `cbor:"7,keyasint,omitempty"` // capability IDs the roster allows
	CatalogSkew   bool     `cbor:"8,keyasint,omitempty"` // the two sides' catalogs differ
	// SiteEpoch and SiteStopped are the site's stop switch; the node obeys it before it
	// takes a ticket.
	SiteEpoch   uint64 `cbor:"9,keyasint,omitempty"`
	SiteStopped bool   `cbor:"10,keyasint,omitempty"`
	// Origins are where the gateway serves its own pages, such as https://10.0.0.5:7480:
	// what a person's own browser shows of them no call is to see.
	Origins []string `cbor:"11,keyasint,omitempty"`
	// Generation of the site, and its proof, as in Hello; a node ends the connection to a gateway
	// of a lower one than it knows.
	Generation      uint64 `cbor:"12,keyasint,omitempty"`
	GenerationProof []byte `cbor:"13,keyasint,omitempty"`
	// Gateways are the site's gateways, each by its addresses in the order to try them, from which
	// the node chooses when it connects anew; none: it goes on with those that it knows.
	Gateways [][]string `cbor:"20,keyasint,omitempty"`
	// Program is the version of the gateway's program, which a node may follow; "": it does not say.
	Program string `cbor:"22,keyasint,omitempty"`
}

// MaxGateways bounds HelloAck.Gateways, MaxGatewayAddrs the addresses of each and MaxGatewayBytes
// the bytes of all.
const (
	MaxGateways     = 16
	MaxGatewayAddrs = 6
	MaxGatewayBytes = 2 << 10
)

func gateways(list [][]string) error {
	if len(list) > MaxGateways {
		return fmt.Errorf("more than %d gateways", MaxGateways)
	}
	size := 0
	for _, addrs := range list {
		if len(addrs) == 0 || len(addrs) > MaxGatewayAddrs {
			return fmt.Errorf("a gateway has 1 to %d addresses", MaxGatewayAddrs)
		}
		for _, a := range addrs {
			size += len(a)
			if a == "" || size > MaxGatewayBytes {
				return fmt.Errorf("an address of a gateway is empty, or all are more than %d bytes", MaxGatewayBytes)
			}
		}
	}
	return nil
}

// MaxOrigins bounds HelloAck.Origins, MaxOrigin the bytes of each.
const (
	MaxOrigins = 16
	MaxOrigin  = 300
)

// Heartbeat goes from node to gateway every HeartbeatMS.
type Heartbeat struct {
	Seq     uint64 `cbor:"1,keyasint"`
	Active  uint32 `cbor:"2,keyasint,omitempty"` // calls running
	UptimeS uint64 `cbor:"3,keyasint,omitempty"`
	Head    *Head  `cbor:"4,keyasint,omitempty"`
	// Addrs are those of Hello, where they have changed since they were last said.
	Addrs [][]byte `cbor:"5,keyasint,omitempty"`
	// Pools are those in which calls run or wait or were refused, or programs started.
	Pools []Pool `cbor:"6,keyasint,omitempty"`
}

// MaxPools bounds Heartbeat.Pools: one for each class.
const MaxPools = 5

// Pool is how the calls of one isolation class fare on a node.
type Pool struct {
	Class   capabilities.IsolationClass `cbor:"1,keyasint"`
	Running uint32                      `cbor:"2,keyasint,omitempty"`
	Most    uint32                      `cbor:"3,keyasint,omitempty"` // that run at once
	Waiting uint32                      `cbor:"4,keyasint,omitempty"`
	Queue   uint32                      `cbor:"5,keyasint,omitempty"` // that may wait
	Refused uint64                      `cbor:"6,keyasint,omitempty"` // since the node's start, since the queue was full
	Ready   uint32                      `cbor:"7,keyasint,omitempty"` // runners that stand ready
	Warm    uint64                      `cbor:"8,keyasint,omitempty"` // programs since the node's start that found one
	Cold    uint64                      `cbor:"9,keyasint,omitempty"` // programs that found none
}

// HeartbeatAck answers a Heartbeat with its sequence.
type HeartbeatAck struct {
	Seq  uint64 `cbor:"1,keyasint"`
	Head *Head  `cbor:"2,keyasint,omitempty"` // the gateway's
}

// Readiness is the whole present truth of a node; each replaces the one before.
type Readiness struct {
	Capabilities []capabilities.Readiness `cbor:"1,keyasint"`
}

// Allowlist is the roster's list for this node; each replaces the one before.
type Allowlist struct {
	Capabilities []string `cbor:"1,keyasint"`
}

// Approved ends the wait of a joining node: its ID and its certificate.
type Approved struct {
	Node  capabilities.NodeID `cbor:"1,keyasint"`
	Cert  []byte              `cbor:"2,keyasint"` // DER
	Trust string              `cbor:"3,keyasint,omitempty"`
	Label string              `cbor:"4,keyasint,omitempty"`
	Allow []string            `cbor:"5,keyasint,omitempty"`
}

// Stop is a change of a stop switch. There are two, and either stops a node: the
// device's own, which only its node turns (Epoch and On, from node to gateway), and
// the site's, which only the gateway turns (SiteEpoch and SiteOn; from the node they
// say what it obeys now). Epochs only grow.
type Stop struct {
	Epoch     uint64 `cbor:"1,keyasint"`
	On        bool   `cbor:"2,keyasint"`
	SiteEpoch uint64 `cbor:"3,keyasint,omitempty"`
	SiteOn    bool   `cbor:"4,keyasint,omitempty"`
}

// Rotate asks for a certificate for a new leaf key. Proof is the new key's
// signature over this connection (pairing.RotationStatement).
type Rotate struct {
	PublicKey []byte `cbor:"1,keyasint"` // Ed25519, 32 bytes
	Proof     []byte `cbor:"2,keyasint"` // 64 bytes
}

// RotateAnswer carries the new certificate, or the code of the refusal.
type RotateAnswer struct {
	Cert []byte            `cbor:"1,keyasint,omitempty"` // DER
	Code capabilities.Code `cbor:"2,keyasint,omitempty"`
}

// LaneClosed tells the node to free what a lane holds.
type LaneClosed struct {
	Lane capabilities.LaneID `cbor:"1,keyasint"`
}

// SecretsDone is a person's word that nothing of the secrets which a lane pasted is to be
// seen any more. Only for nodes whose hello says TakesDone.
type SecretsDone struct {
	Lane capabilities.LaneID `cbor:"1,keyasint"`
}

// Kind is KindHello.
func (*Hello) Kind() Kind { return KindHello }

// Kind is KindHelloAck.
func (*HelloAck) Kind() Kind { return KindHelloAck }

// Kind is KindHeartbeat.
func (*Heartbeat) Kind() Kind { return KindHeartbeat }

// Kind is KindHeartbeatAck.
func (*HeartbeatAck) Kind() Kind { return KindHeartbeatAck }

// Kind is KindReadiness.
func (*Readiness) Kind() Kind { return KindReadiness }

// Kind is KindAllowlist.
func (*Allowlist) Kind() Kind { return KindAllowlist }

// Kind is KindApproved.
func (*Approved) Kind() Kind { return KindApproved }

// Kind is KindStop.
func (*Stop) Kind() Kind { return KindStop }

// Kind is KindRotate.
func (*Rotate) Kind() Kind { return KindRotate }

// Kind is KindRotateAnswer.
func (*RotateAnswer) Kind() Kind { return KindRotateAnswer }

// Kind is KindLaneClosed.
func (*LaneClosed) Kind() Kind { return KindLaneClosed }

// Kind is KindSecretsDone.
func (*SecretsDone) Kind() Kind { return KindSecretsDone }

func (h *Head) check() error {
	if h != nil && len(h.Sig) != 0 && len(h.Sig) != 64 {
		return errors.New("a head's signature has 64 bytes or none")
	}
	return nil
}

func names(what string, limit int, list ...string) error {
	for _, s := range list {
		if len(s) > limit {
			return fmt.Errorf("%s is longer than %d bytes", what, limit)
		}
	}
	return nil
}

func (h *Hello) check() error {
	if h.Version == 0 || h.MinVersion == 0 || h.MinVersion > h.Version {
		return errors.New("versions must be at least 1 and in order")
	}
	if h.Node == "" {
		return errors.New("node is missing")
	}
	if max(h.StopEpoch, h.SiteEpoch) > maxEpoch {
		return errors.New("a stop epoch is out of range")
	}
	if len(h.LogKey) != 0 && len(h.LogKey) != 32 {
		return errors.New("log key has 32 bytes or none")
	}
	if err := names("a name", maxName, string(h.Node), h.Agent, h.Platform, h.Arch, h.Host); err != nil {
		return err
	}
	if err := errors.Join(addresses(h.Addrs), mark(h.Generation, h.GenerationProof), names("recall", maxRecall, h.Recall)); err != nil {
		return err
	}
	return h.LogHead.check()
}

// mark checks the form of a generation; its proof is for whom knows the site's key.
func mark(generation uint64, proof []byte) error {
	if generation > maxEpoch || (generation == 0) != (len(proof) == 0) || len(proof) != 0 && len(proof) != 64 {
		return errors.New("a generation has a proof of 64 bytes, and none has none")
	}
	return nil
}

func addresses(list [][]byte) error {
	if len(list) > MaxAddrs {
		return fmt.Errorf("more than %d addresses", MaxAddrs)
	}
	for _, a := range list {
		if len(a) != 4 && len(a) != 16 {
			return errors.New("an address has 4 or 16 bytes")
		}
	}
	return nil
}

func (h *HelloAck) check() error {
	if h.Version == 0 || h.Gateway == "" || h.HeartbeatMS == 0 {
		return errors.New("version, gateway and heartbeat must be given")
	}
	if h.SiteEpoch > maxEpoch {
		return errors.New("a stop epoch is out of range")
	}
	if err := mark(h.Generation, h.GenerationProof); err != nil {
		return err
	}
	if len(h.Allow) > MaxCapabilities {
		return fmt.Errorf("more than %d capabilities", MaxCapabilities)
	}
	if err := gateways(h.Gateways); err != nil {
		return err
	}
	if len(h.Origins) > MaxOrigins {
		return fmt.Errorf("more than %d origins", MaxOrigins)
	}
	if err := errors.Join(names("a name", maxName, h.Gateway, h.Program), names("an origin", MaxOrigin, h.Origins...)); err != nil {
		return err
	}
	if err := names("a capability", maxName, h.Allow...); err != nil {
		return err
	}
	return h.GatewayHead.check()
}

func (h *Heartbeat) check() error {
	if len(h.Pools) > MaxPools {
		return fmt.Errorf("more than %d pools", MaxPools)
	}
	for _, p := range h.Pools {
		if p.Class.Rank() == 0 {
			return errors.New("a pool has no class")
		}
	}
	return errors.Join(addresses(h.Addrs), h.Head.check())
}

func (h *HeartbeatAck) check() error { return h.Head.check() }

func (r *Readiness) check() error {
	if len(r.Capabilities) > MaxCapabilities {
		return fmt.Errorf("more than %d capabilities", MaxCapabilities)
	}
	for i, c := range r.Capabilities {
		if c.Capability == "" {
			return errors.New("a capability has no ID")
		}
		if err := names("a name", maxName, string(c.Capability), string(c.Reason), string(c.Isolation), c.Degraded, c.Backend, c.Deeper,
			c.Program); err != nil {
			return err
		}
		if len(c.Fix) > maxFix {
			return fmt.Errorf("a fix is longer than %d bytes", maxFix)
		}
		if err := checkAction(&r.Capabilities[i].Action); err != nil {
			return err
		}
		if len(c.Devices) > capabilities.MaxDevices {
			return fmt.Errorf("more than %d devices", capabilities.MaxDevices)
		}
		for _, d := range c.Devices {
			if err := names("a device", capabilities.MaxDeviceText, d.ID, d.Label, d.Facing); err != nil {
				return err
			}
		}
		if len(c.Hosts) > capabilities.MaxHosts {
			return fmt.Errorf("more than %d hosts", capabilities.MaxHosts)
		}
		if err := names("a host", capabilities.MaxHostText, c.Hosts...); err != nil {
			return err
		}
	}
	return nil
}

// Clip shortens the texts of each entry to what a frame may carry.
func (r *Readiness) Clip() {
	for i := range r.Capabilities {
		c := &r.Capabilities[i]
		c.Fix, c.Backend, c.Degraded = capabilities.Clip(c.Fix, maxFix), capabilities.Clip(c.Backend, maxName),
			capabilities.Clip(c.Degraded, maxName)
		c.Action = clipAction(c.Action)
		c.Devices = slices.Clone(c.Devices[:min(len(c.Devices), capabilities.MaxDevices)]) // others hold it, too
		for k := range c.Devices {
			d := &c.Devices[k]
			d.ID, d.Label, d.Facing = capabilities.Clip(d.ID, capabilities.MaxDeviceText), capabilities.Clip(d.Label, capabilities.MaxDeviceText),
				capabilities.Clip(d.Facing, capabilities.MaxDeviceText)
		}
	}
}

func (a *Allowlist) check() error {
	if len(a.Capabilities) > MaxCapabilities {
		return fmt.Errorf("more than %d capabilities", MaxCapabilities)
	}
	return names("a capability", maxName, a.Capabilities...)
}

func (a *Approved) check() error {
	if a.Node == "" || len(a.Cert) == 0 || len(a.Cert) > maxCert {
		return fmt.Errorf("node and a certificate of at most %d bytes must be given", maxCert)
	}
	if len(a.Allow) > MaxCapabilities {
		return fmt.Errorf("more than %d capabilities", MaxCapabilities)
	}
	if err := names("a name", maxName, string(a.Node), a.Trust, a.Label); err != nil {
		return err
	}
	return names("a capability", maxName, a.Allow...)
}

// maxEpoch leaves room to count on: a store keeps epochs as signed numbers.
const maxEpoch = 1 << 62

func (s *Stop) check() error {
	if max(s.Epoch, s.SiteEpoch) > maxEpoch {
		return errors.New("a stop epoch is out of range")
	}
	return nil
}

func (r *Rotate) check() error {
	if len(r.PublicKey) != 32 || len(r.Proof) != 64 {
		return errors.New("the key has 32 bytes, the proof 64")
	}
	return nil
}

func (r *RotateAnswer) check() error {
	if (len(r.Cert) == 0) == (r.Code == "") {
		return errors.New("either a certificate or a code must be given")
	}
	if len(r.Cert) > maxCert {
		return fmt.Errorf("certificate is larger than %d bytes", maxCert)
	}
	if r.Code != "" && !r.Code.Known() {
		r.Code = capabilities.CodeInternal
	}
	return nil
}

func (l *LaneClosed) check() error {
	if l.Lane == "" || len(l.Lane) > maxName {
		return fmt.Errorf("lane must be 1 to %d bytes", maxName)
	}
	return nil
}

func (d *SecretsDone) check() error {
	if d.Lane == "" || len(d.Lane) > maxName {
		return fmt.Errorf("lane must be 1 to %d bytes", maxName)
	}
	return nil
}
