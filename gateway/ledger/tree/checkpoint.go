package tree

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/handrail-dev/handrail/capabilities/chain"
)

// MaxText is the most bytes of a checkpoint or a proof: a proof has one packet in it.
const MaxText = 1 << 20

// ed25519Kind is the kind of signature, by the signed notes' own list.
const ed25519Kind = 1

// Origin returns the name of a chain's tree, by which witnesses tell it from others.
func Origin(name string) string { return "handrail/ledger/" + name }

// KeyOf returns the public key of a chain's tree as witnesses take it (C2SP signed-note's vkey).
func KeyOf(name string, key chain.Key) string {
	origin, public := Origin(name), append([]byte{ed25519Kind}, key[:]...)
	return fmt.Sprintf("%s+%08x+%s", origin, keyHash(origin, public), base64.StdEncoding.EncodeToString(public))
}

// ReadKey reads what KeyOf made.
func ReadKey(text string) (chain.Key, error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) == 3 {
		public, err := base64.StdEncoding.DecodeString(parts[2])
		if err == nil && len(public) == 1+len(chain.Key{}) && public[0] == ed25519Kind {
			if key := chain.Key(public[1:]); KeyOf(strings.TrimPrefix(parts[0], Origin("")), key) == text {
				return key, nil
			}
		}
	}
	return chain.Key{}, errors.New("it is no key of a ledger's checkpoints")
}

func keyHash(name string, public []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), public...))
	return binary.BigEndian.Uint32(sum[:])
}

// signer signs notes by the ledger's key.
type signer struct {
	name string
	key  ed25519.PrivateKey
}

func (s signer) Name() string { return s.name }

func (s signer) KeyHash() uint32 {
	return keyHash(s.name, append([]byte{ed25519Kind}, s.key.Public().(ed25519.PublicKey)...))
}

func (s signer) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.key, text), nil }

// Checkpoint is the tree at one size: the first Size packets of a chain.
type Checkpoint struct {
	Chain string    `json:"chain"`
	Size  uint64    `json:"size"`
	Root  tlog.Hash `json:"root"`
}

// Sign returns the checkpoint as a signed note.
func (c Checkpoint) Sign(key ed25519.PrivateKey) (string, error) {
	origin := Origin(c.Chain)
	text := fmt.Sprintf("%s\n%d\n%s\n", origin, c.Size, c.Root)
	signed, err := note.Sign(&note.Note{Text: text}, signer{origin, key})
	return string(signed), err
}

// Open reads a checkpoint that one of the keys signed. Signatures of others, such as witnesses',
// may stand in it as well; they are not judged.
func Open(text string, keys ...chain.Key) (Checkpoint, error) {
	if len(text) > MaxText {
		return Checkpoint{}, errors.New("the checkpoint is too long")
	}
	origin, _, _ := strings.Cut(text, "\n")
	name, ok := strings.CutPrefix(origin, Origin(""))
	if !ok {
		return Checkpoint{}, errors.New("it is no checkpoint of a ledger")
	}
	var all []note.Verifier
	for _, key := range keys {
		v, err := note.NewVerifier(KeyOf(name, key))
		if err != nil {
			return Checkpoint{}, fmt.Errorf("the checkpoint's origin: %w", err)
		}
		all = append(all, v)
	}
	opened, err := note.Open([]byte(text), note.VerifierList(all...))
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the checkpoint is not signed by that key: %w", err)
	}
	lines := strings.SplitN(opened.Text, "\n", 4)
	if len(lines) < 4 {
		return Checkpoint{}, errors.New("the checkpoint has fewer than three lines")
	}
	c := Checkpoint{Chain: name}
	if c.Size, err = number(lines[1]); err != nil {
		return Checkpoint{}, fmt.Errorf("the checkpoint's size: %w", err)
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Checkpoint{}, fmt.Errorf("the checkpoint's root: %w", err)
	}
	c.Root = root
	return c, nil
}

// number reads a decimal without leading zeroes that an int64 holds.
func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 63)
	if err == nil && strconv.FormatUint(n, 10) != text {
		err = errors.New("it is not plain")
	}
	return n, err
}

// Continues reports, by the hashes of a consistency proof, whether later begins with all of c.
func (c Checkpoint) Continues(later Checkpoint, hashes []tlog.Hash) error {
	switch {
	case c.Chain != later.Chain:
		return fmt.Errorf("they are of two ledgers, %q and %q", c.Chain, later.Chain)
	case c.Size > later.Size:
		return fmt.Errorf("the later one has %d packets, the earlier one %d", later.Size, c.Size)
	case c.Size == 0:
		return nil
	}
	if err := tlog.CheckTree(hashes, int64(later.Size), later.Root, int64(c.Size), c.Root); err != nil {
		return errors.New("the later one does not begin with the packets of the earlier one")
	}
	return nil
}

const proofHead = "c2sp.org/tlog-proof@v1\n"

// Proof says that a packet is in the tree of a checkpoint.
type Proof struct {
	Packet     []byte      // as an export has it, in JSON
	Index      uint64      // its sequence number less one
	Hashes     []tlog.Hash // RFC 6962 section 2.1.1
	Checkpoint string
}

// maxHashes is more than a tree of 2^63 leaves needs.
const maxHashes = 64

// String is the proof as a file has it (C2SP tlog-proof).
func (p *Proof) String() string {
	var b strings.Builder
	b.WriteString(proofHead)
	fmt.Fprintf(&b, "extra %s\nindex %d\n", base64.StdEncoding.EncodeToString(p.Packet), p.Index)
	for _, h := range p.Hashes {
		b.WriteString(h.String() + "\n")
	}
	b.WriteString("\n" + p.Checkpoint)
	return b.String()
}

// IsProof reports whether a file that begins so is a proof.
func IsProof(beginning []byte) bool { return bytes.HasPrefix(beginning, []byte(proofHead)) }

// ReadProof reads the text of a proof. Nothing of it is judged yet.
func ReadProof(text string) (*Proof, error) {
	if len(text) > MaxText {
		return nil, errors.New("the proof is too long")
	}
	body, ok := strings.CutPrefix(text, proofHead)
	if !ok {
		return nil, errors.New("it is no proof")
	}
	head, checkpoint, ok := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(lines) < 2 || len(lines) > 2+maxHashes {
		return nil, errors.New("the proof is not whole")
	}
	p := &Proof{Checkpoint: checkpoint}
	extra, ok := strings.CutPrefix(lines[0], "extra ")
	if !ok {
		return nil, errors.New("the proof has no packet")
	}
	var err error
	if p.Packet, err = base64.StdEncoding.DecodeString(extra); err != nil {
		return nil, fmt.Errorf("the proof's packet: %w", err)
	}
	index, ok := strings.CutPrefix(lines[1], "index ")
	if !ok {
		return nil, errors.New("the proof has no index")
	}
	if p.Index, err = number(index); err != nil {
		return nil, fmt.Errorf("the proof's index: %w", err)
	}
	for _, line := range lines[2:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return nil, fmt.Errorf("the proof's hashes: %w", err)
		}
		p.Hashes = append(p.Hashes, h)
	}
	return p, nil
}

// Judge reports whether a packet of that hash is in the tree of the proof's checkpoint, which one
// of the keys must have signed. It returns the checkpoint.
func (p *Proof) Judge(leaf chain.Hash, keys ...chain.Key) (Checkpoint, error) {
	c, err := Open(p.Checkpoint, keys...)
	if err != nil {
		return c, err
	}
	if p.Index >= c.Size {
		return c, fmt.Errorf("the checkpoint has %d packets, and the proof is of number %d", c.Size, p.Index+1)
	}
	if err := tlog.CheckRecord(p.Hashes, int64(c.Size), c.Root, int64(p.Index), Leaf(leaf)); err != nil {
		return c, errors.New("the packet is not in the tree of the checkpoint")
	}
	return c, nil
}

// Leaf is the tree's leaf of a packet with that hash.
func Leaf(h chain.Hash) tlog.Hash { return tlog.RecordHash(h[:]) }
