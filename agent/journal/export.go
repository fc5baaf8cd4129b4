package journal

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// An exported log is text, one JSON object a line:
//
//	header  format, chain, when it was taken
//	entry*  the preimage of each entry's hash, in order
//	head*   the latest signed head of the log itself, and of each gateway's ledger
//	end     number of lines before it, and their SHA-256, signed by the node
//
// It holds no payload, as the journal does not.
const exportFormat = "handrail-journal/1"

type exportLine struct {
	Type     string      `json:"type"`
	Format   string      `json:"format,omitempty"`
	Chain    string      `json:"chain,omitempty"`
	TakenMS  int64       `json:"taken_ms,omitempty"`
	Preimage []byte      `json:"preimage,omitempty"` // base64
	Head     *chain.Head `json:"head,omitempty"`
	Lines    uint64      `json:"lines,omitempty"`
	Digest   *chain.Hash `json:"sha256,omitempty"`
	Key      *chain.Key  `json:"key,omitempty"`
	Sig      *chain.Sig  `json:"sig,omitempty"`
}

// maxExportLine bounds a line that ReadExport takes.
const maxExportLine = 16 << 10

func endText(name string, lines uint64, digest chain.Hash) []byte {
	b := chain.AppendField(nil, "handrail/journal-export/1")
	b = chain.AppendField(b, name)
	b = chain.AppendField(b, fmt.Sprint(lines))
	return chain.AppendField(b, digest[:])
}

// Export writes the journal in dir, signed with the node's key, for a comparison
// elsewhere. It needs no running node.
func Export(w io.Writer, dir, name string, key ed25519.PrivateKey, now time.Time) error {
	l, err := Read(dir, name)
	if err != nil {
		return err
	}
	out, sum, lines := bufio.NewWriter(w), sha256.New(), uint64(0)
	line := func(v exportLine) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		b = append(b, '\n')
		lines++
		sum.Write(b)
		_, err = out.Write(b)
		return err
	}
	if err := line(exportLine{Type: "header", Format: exportFormat, Chain: name, TakenMS: now.UnixMilli()}); err != nil {
		return err
	}
	firsts, err := segments(dir)
	if err != nil {
		return err
	}
	next := l.First
	for _, first := range firsts {
		data, err := readSegment(segmentPath(dir, first))
		if err != nil {
			return err
		}
		for next <= l.Last {
			entry, payload, rest, err := nextRecord(data)
			if err != nil {
				break
			}
			if entry.Seq == next { // what is newer than the check is left out
				if err := line(exportLine{Type: "entry", Preimage: payload}); err != nil {
					return err
				}
				next++
			}
			data = rest
		}
	}
	if l.Last > 0 && next != l.Last+1 {
		return capabilities.Errorf(capabilities.CodeConflict, "the log went on while it was read").WithHint("Do it again.")
	}
	for _, h := range append([]chain.Head{l.Head}, l.Peers...) {
		if h.Seq == 0 {
			continue
		}
		if err := line(exportLine{Type: "head", Head: &h}); err != nil {
			return err
		}
	}
	digest := chain.Hash(sum.Sum(nil))
	public, sig := chain.PublicKey(key), chain.Sig(ed25519.Sign(key, endText(name, lines, digest)))
	if err := line(exportLine{Type: "end", Chain: name, Lines: lines, Digest: &digest, Key: &public, Sig: &sig}); err != nil {
		return err
	}
	return out.Flush()
}

// Exported is an exported log, checked.
type Exported struct {
	Log
	Taken time.Time
	Key   chain.Key // signed it; whose that is, the caller must know
}

// ReadExport reads what Export wrote. CodeInvalidRequest if it is no such thing,
// CodeLedgerCorrupt if it was changed or does not fit together.
func ReadExport(r io.Reader) (*Exported, error) {
	in := bufio.NewReaderSize(r, maxExportLine)
	x := &Exported{}
	var walk chain.Walker
	var sum hash.Hash = sha256.New()
	stages := map[string]int{"header": 1, "entry": 2, "head": 3, "end": 4}
	stage := 0
	for lines := uint64(0); ; lines++ {
		b, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || err != nil && lines == 0 {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no exported log of a node")
		}
		if err != nil {
			return nil, corrupt("the export ends before its end line")
		}
		var l exportLine
		if json.Unmarshal(b, &l) != nil || lines == 0 && (l.Type != "header" || l.Format != exportFormat) {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "this is no exported log of a node").
				WithAction(capabilities.Action{Key: capabilities.ActionExportLog}, "Export one on the device.")
		}
		// JSON has many ways to say the same; a changed byte must never pass.
		if again, err := json.Marshal(l); err != nil || !bytes.Equal(append(again, '\n'), b) {
			return nil, corrupt("line %d is not written as an export writes it", lines+1)
		}
		if at := stages[l.Type]; at < max(stage, 1) || at == stage && (at == 1 || at == 4) {
			return nil, corrupt("line %d: %q has no place here", lines+1, l.Type)
		} else {
			stage = at
		}
		switch l.Type {
		case "header":
			x.Chain, x.Taken, walk = l.Chain, time.UnixMilli(l.TakenMS), chain.NewWalker(l.Chain)
		case "entry":
			e, err := chain.DecodeEntry(l.Preimage, maxFields)
			if err != nil {
				return nil, corrupt("line %d: %v", lines+1, err)
			}
			if x.First == 0 && e.Seq != 1 {
				walk.Next, walk.Prev = e.Seq, e.Prev
			}
			h := chain.Sum(l.Preimage)
			if err := walk.Step(e.Seq, e.Prev, e.Time, h); err != nil {
				return nil, corrupt("line %d: %v", lines+1, err)
			}
			if x.First == 0 {
				x.First = e.Seq
			}
			x.Last = e.Seq
			x.Records = append(x.Records, recordOf(e, h))
		case "head":
			if l.Head == nil || l.Head.Verify() != nil {
				return nil, corrupt("line %d: the head is not properly signed", lines+1)
			}
			if l.Head.Chain == x.Chain {
				x.Head = *l.Head
			} else {
				x.Peers = append(x.Peers, *l.Head)
			}
		case "end":
			digest := chain.Hash(sum.Sum(nil))
			if l.Digest == nil || l.Key == nil || l.Sig == nil || l.Lines != lines || *l.Digest != digest || l.Chain != x.Chain ||
				!l.Key.Verify(endText(x.Chain, lines, digest), *l.Sig) {
				return nil, corrupt("the end line does not sum up the lines before it")
			}
			if _, err := in.ReadByte(); err != io.EOF {
				return nil, corrupt("something follows the end")
			}
			x.Key = *l.Key
			if err := x.checkHead(x.Head); err != nil {
				return nil, err
			}
			return x, nil
		}
		sum.Write(b)
	}
}

// Dir is the folder of a chain's journal below a node's folder.
func Dir(node, name string) string { return filepath.Join(node, "journal", name) }
