package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// Pins are what a verifier knows from elsewhere. Empty pins prove only that the
// export is whole and agrees with itself.
type Pins struct {
	// Keys the last head must be signed by one of. Older keys may have signed older
	// parts: the head binds those by their hashes.
	Keys []chain.Key
	// Heads of this chain seen earlier, such as those that nodes keep. The export
	// must contain them: a shorter or rewritten chain does not.
	Heads []chain.Head
	// Chain is the expected name; empty: any.
	Chain string

	onPacket  func(*Packet)        // sees each packet that is good so far
	onWitness func(*chain.Witness) // sees each witness that is good so far
}

const (
	maxLine = 256 << 10 // a packet's line is far shorter
	maxKeys = 1024
)

// Verify checks an export without any other help. An error is CodeLedgerCorrupt
// and names the line, or CodeInvalidRequest if the input is no export at all.
func Verify(r io.Reader, pins Pins) (Report, error) {
	v := verifier{in: bufio.NewReaderSize(r, 64<<10), sum: sha256.New(), pins: pins}
	v.report.Kinds = map[Kind]uint64{}
	if err := v.run(); err != nil {
		var e *capabilities.Error
		if !errors.As(err, &e) {
			e = capabilities.Errorf(capabilities.CodeLedgerCorrupt, "line %d: %v", v.lines, err)
		}
		return Report{}, e
	}
	return v.report, nil
}

// verifier reads an export from front to back.
type verifier struct {
	in    *bufio.Reader
	sum   hash.Hash
	lines uint64
	pins  Pins

	report Report
	header headerLine
	stage  int // of the order of line types
	walk   chain.Walker
	heads  map[uint64]map[chain.Hash]int // given heads not passed yet, by place
	pruned prunedBody                    // the last gateway.ledger.pruned seen
	buf    bytes.Buffer
	pre    []byte
}

// stages is the order of line types.
var stages = []string{"header", "segment", "packet", "witness", "head", "end"}

func (v *verifier) run() error {
	for {
		line, err := v.readLine()
		if err != nil {
			return err
		}
		var kind struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			if v.lines == 1 {
				return capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no ledger export")
			}
			return errors.New("is not JSON")
		}
		stage := slices.Index(stages, kind.Type)
		repeats := kind.Type == "segment" || kind.Type == "packet" || kind.Type == "witness"
		switch {
		case v.lines == 1 && stage != 0:
			return capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no ledger export: it has no header")
		case stage < v.stage, stage == v.stage && v.lines > 1 && !repeats:
			return fmt.Errorf("%q has no place here", kind.Type)
		case kind.Type == "end" && stages[v.stage] != "head":
			return errors.New("the head is missing")
		}
		v.stage = stage
		if err := v.checkLine(kind.Type, line); err != nil {
			return err
		}
		if kind.Type == "end" {
			if _, err := v.in.ReadByte(); err != io.EOF {
				return errors.New("something follows the end")
			}
			return nil
		}
		v.sum.Write(line)
	}
}

func (v *verifier) readLine() ([]byte, error) {
	v.lines++
	v.buf.Reset()
	for {
		part, err := v.in.ReadSlice('\n')
		v.buf.Write(part)
		switch {
		case err == nil:
			return v.buf.Bytes(), nil
		case v.buf.Len() > maxLine:
			return nil, errors.New("is too long")
		case err == io.EOF && v.buf.Len() == 0 && v.lines == 1:
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no ledger export: it is empty")
		case err == io.EOF:
			return nil, errors.New("the export ends before its end line")
		case err != bufio.ErrBufferFull:
			return nil, capabilities.Wrap(capabilities.CodeInternal, err, "The export cannot be read.")
		}
	}
}

func (v *verifier) checkLine(kind string, line []byte) error {
	switch kind {
	case "header":
		return v.takeHeader(line)
	case "segment":
		return v.takeSegment(line)
	case "packet":
		return v.takePacket(line)
	case "witness":
		return v.takeWitness(line)
	case "head":
		return v.takeHead(line)
	default:
		return v.takeEnd(line)
	}
}

// decode reads a line and makes sure that it is written the one way that export
// writes it: JSON has many ways to say the same (letter case of keys and of hex
// digits among them), and a changed byte must never pass.
func decode[T any](line []byte, into *T) error {
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	var again bytes.Buffer
	if err := appendLine(&again, into); err != nil {
		return fmt.Errorf("cannot be read: %w", err)
	}
	if !bytes.Equal(again.Bytes(), line) {
		return errors.New("is not written as an export writes it")
	}
	return nil
}

func (v *verifier) takeHeader(line []byte) error {
	if err := decode(line, &v.header); err != nil {
		return err
	}
	if v.header.Format != exportFormat {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "export format %q is not %q", v.header.Format, exportFormat)
	}
	if len(v.header.Keys) == 0 || len(v.header.Keys) > maxKeys {
		return fmt.Errorf("%d keys", len(v.header.Keys))
	}
	if v.pins.Chain != "" && v.pins.Chain != v.header.Chain {
		return fmt.Errorf("this is chain %q, not %q", v.header.Chain, v.pins.Chain)
	}
	v.walk = chain.NewWalker(v.header.Chain)
	v.report.Chain = v.header.Chain
	v.heads = map[uint64]map[chain.Hash]int{}
	for _, h := range v.pins.Heads {
		if h.Chain != v.header.Chain {
			return fmt.Errorf("a given head is of chain %q, not %q", h.Chain, v.header.Chain)
		}
		if err := h.Verify(); err != nil {
			return fmt.Errorf("a given head at %d is not properly signed", h.Seq)
		}
		if v.heads[h.Seq] == nil {
			v.heads[h.Seq] = map[chain.Hash]int{}
		}
		v.heads[h.Seq][h.Hash]++
	}
	return v.passHeads(0)
}

// passHeads compares the given heads at seq with the chain there.
func (v *verifier) passHeads(seq uint64) error {
	for hash, n := range v.heads[seq] {
		if hash != v.walk.Prev {
			return fmt.Errorf("entry %d is not the one whose head was given", seq)
		}
		v.report.Heads += n
	}
	delete(v.heads, seq)
	return nil
}

func (v *verifier) ours(k chain.Key) bool { return slices.Contains(v.header.Keys, k) }

func (v *verifier) takeSegment(line []byte) error {
	var s segmentLine
	if err := decode(line, &s); err != nil {
		return err
	}
	if !v.ours(s.Key) {
		return errors.New("the segment is signed by a key that is not listed")
	}
	if err := s.Segment.Verify(v.header.Chain); err != nil {
		return errors.New("the segment is not properly signed")
	}
	if err := v.walk.Skip(s.Segment); err != nil {
		return err
	}
	v.report.Segments++
	v.report.Pruned += s.Last - s.First + 1
	return v.passHeads(s.Last)
}

func (v *verifier) takePacket(line []byte) error {
	var p packetLine
	if err := decode(line, &p); err != nil {
		return err
	}
	v.pre = p.appendPreimage(v.pre[:0])
	if got := chain.Sum(v.pre); got != p.Hash {
		return fmt.Errorf("entry %d does not have the hash it names", p.Seq)
	}
	if err := v.walk.Step(p.Seq, p.Prev, p.TimeUS, p.Hash); err != nil {
		return err
	}
	if v.report.First == 0 {
		v.report.First = p.Seq
	}
	v.report.Packets++
	v.report.Kinds[p.Kind]++
	if p.Kind == KindPruned {
		if err := json.Unmarshal(p.Body, &v.pruned); err != nil {
			return fmt.Errorf("entry %d says nothing readable of what was pruned", p.Seq)
		}
	}
	if v.pins.onPacket != nil {
		v.pins.onPacket(&p.Packet)
	}
	return v.passHeads(p.Seq)
}

func (v *verifier) takeWitness(line []byte) error {
	var w witnessLine
	if err := decode(line, &w); err != nil {
		return err
	}
	if !v.ours(w.Key) || w.By != v.header.Chain {
		return errors.New("the witness is not this ledger")
	}
	if err := w.Witness.Verify(); err != nil {
		return errors.New("a node's head is not properly signed")
	}
	if w.At >= v.walk.Next {
		return fmt.Errorf("node %q was witnessed at entry %d, and the export ends at %d", w.Head.Chain, w.At, v.walk.Next-1)
	}
	if v.pins.onWitness != nil {
		v.pins.onWitness(&w.Witness)
	}
	v.report.Nodes = append(v.report.Nodes, capabilities.NodeID(w.Head.Chain))
	return nil
}

func (v *verifier) takeHead(line []byte) error {
	var h headLine
	if err := decode(line, &h); err != nil {
		return err
	}
	last := v.walk.Next - 1
	switch {
	case h.Chain != v.header.Chain || h.Seq != last || h.Hash != v.walk.Prev:
		return fmt.Errorf("the head is of entry %d of %q; the packets end at %d", h.Seq, h.Chain, last)
	case h.Key != v.header.Keys[0]:
		return errors.New("the head is signed by a key that is not the first listed")
	case h.Head.Verify() != nil:
		return errors.New("the head is not properly signed")
	case len(v.pins.Keys) > 0 && !slices.Contains(v.pins.Keys, h.Key):
		return fmt.Errorf("the head is signed by key %s, which is not a key you trust", h.Key)
	}
	if v.report.Pruned > 0 && (v.pruned.Through != v.report.Pruned || v.report.First != v.pruned.Through+1) {
		return fmt.Errorf("%d packets are gone, and the ledger says that %d were pruned", v.report.Pruned, v.pruned.Through)
	}
	for seq, hashes := range v.heads {
		if seq > last {
			return fmt.Errorf("the export ends at entry %d, before a given head at %d", last, seq)
		}
		v.report.HeadsPruned += len(hashes)
	}
	v.report.Head, v.report.Last = h.Head, last
	v.report.Pinned = len(v.pins.Keys) > 0
	return nil
}

func (v *verifier) takeEnd(line []byte) error {
	var e endLine
	if err := decode(line, &e); err != nil {
		return err
	}
	if e.Lines != v.lines-1 || e.Digest != chain.Hash(v.sum.Sum(nil)) {
		return errors.New("the end line does not sum up the lines before it")
	}
	if !v.report.Head.Key.Verify(endText(v.header.Chain, e.Lines, e.Digest), e.Sig) {
		return errors.New("the end line is not properly signed")
	}
	return nil
}
