package journal

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
)

// Record is one entry of the log as people and programs read it. Which fields are
// set depends on Kind.
type Record struct {
	Seq       uint64                   `json:"seq"`
	TimeUS    int64                    `json:"time_us"` // µs since 1970, UTC
	Kind      string                   `json:"kind"`
	Call      capabilities.CallID      `json:"call_id,omitempty"`
	Tool      capabilities.ToolID      `json:"tool_id,omitempty"`
	Principal capabilities.PrincipalID `json:"principal,omitempty"`
	Lane      capabilities.LaneID      `json:"lane,omitempty"`
	Grant     string                   `json:"grant,omitempty"`         // the gateway's, of a person's
	Envelope  string                   `json:"envelope_hash,omitempty"` // hex
	Parent    capabilities.CallID      `json:"parent_call_id,omitempty"`
	Status    capabilities.Status      `json:"status,omitempty"`
	Code      capabilities.Code        `json:"code,omitempty"`
	Effect    capabilities.Effect      `json:"effect,omitempty"`
	Answer    string                   `json:"answer,omitempty"` // approve or deny
	By        string                   `json:"by,omitempty"`     // who answered; whose stop switch
	Seconds   int                      `json:"for_s,omitempty"`  // how long an answer holds
	Rules     string                   `json:"rules,omitempty"`  // address of the owner's rules
	Hash      chain.Hash               `json:"hash"`
	Prev      chain.Hash               `json:"prev"`
}

// Time is when the entry was made, by the device's clock.
func (r *Record) Time() time.Time { return time.UnixMicro(r.TimeUS) }

// Log is a journal as it was found, its chain checked.
type Log struct {
	Chain   string       `json:"chain"`
	First   uint64       `json:"first"` // entry; 0 if there is none
	Last    uint64       `json:"last"`
	Head    chain.Head   `json:"head"`     // the latest signed one of its own; Seq 0 if there is none
	Peers   []chain.Head `json:"gateways"` // the latest of each gateway's ledger
	Records []Record     `json:"-"`
}

// maxReadBytes bounds what Read takes of one segment: no segment is larger.
const maxReadBytes = 256 << 20

// Read reads the journal in dir without a running node, and beside one. It takes no
// lock and changes nothing. CodeNotFound if there is none; CodeLedgerCorrupt if it
// was changed, cut short, or does not fit together.
func Read(dir, name string) (*Log, error) {
	for try := 0; ; try++ {
		l, err := read(dir, name)
		// A node that runs has removed its oldest segment meanwhile.
		if errors.Is(err, fs.ErrNotExist) && try < 3 {
			continue
		}
		var coded *capabilities.Error
		if err != nil && !errors.As(err, &coded) {
			return nil, capabilities.Wrap(capabilities.CodeLedgerUnavailable, err, "The node's log cannot be read.")
		}
		return l, err
	}
}

func read(dir, name string) (*Log, error) {
	// Heads first: they are signed for what is on disk, so the entries that are read
	// after them reach at least as far.
	heads, err := readHeads(filepath.Join(dir, "heads.json"))
	if err != nil {
		return nil, err
	}
	firsts, err := segments(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(firsts) == 0 {
		return nil, capabilities.Errorf(capabilities.CodeNotFound, "there is no log at %s", dir).WithHint("The node writes one when it runs.")
	}
	if err != nil {
		return nil, corrupt("%v", err)
	}
	l := &Log{Chain: name}
	walk := chain.NewWalker(name)
	for i, first := range firsts {
		data, err := readSegment(segmentPath(dir, first))
		if err != nil {
			return nil, err
		}
		if i == 0 && first != 1 {
			walk.Next = first
			if e, _, _, err := nextRecord(data); err == nil {
				walk.Prev = e.Prev
			}
		}
		if first != walk.Next {
			return nil, corrupt("entries %d to %d are missing: segment %d begins at %d", walk.Next, first-1, i+1, first)
		}
		if err := l.readRecords(data, &walk, i == len(firsts)-1); err != nil {
			return nil, err
		}
	}
	for _, h := range heads {
		if h.Chain == name {
			l.Head = h
		} else {
			l.Peers = append(l.Peers, h)
		}
	}
	if err := l.checkHead(l.Head); err != nil {
		return nil, err
	}
	return l, nil
}

// checkHead compares a signed head of this log with it; CodeLedgerCorrupt if the log
// is shorter or another one.
func (l *Log) checkHead(h chain.Head) error {
	switch {
	case h.Seq == 0 || h.Seq+1 < l.First:
		return nil // before what is kept
	case h.Seq > l.Last:
		return corrupt("the log can be read up to entry %d, and was signed at entry %d: what follows was cut off or changed", l.Last, h.Seq)
	}
	if hash, ok := l.hashAt(h.Seq); ok && hash != h.Hash {
		return corrupt("entry %d is not the one that was signed", h.Seq)
	}
	return nil
}

// hashAt returns the hash of an entry, or that of what the first one builds on.
func (l *Log) hashAt(seq uint64) (chain.Hash, bool) {
	switch {
	case len(l.Records) == 0 || seq+1 < l.First || seq > l.Last:
		return chain.Hash{}, false
	case seq+1 == l.First:
		return l.Records[0].Prev, true
	}
	return l.Records[seq-l.First].Hash, true
}

func (l *Log) readRecords(data []byte, walk *chain.Walker, last bool) error {
	for {
		entry, payload, rest, err := nextRecord(data)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTorn) && last:
			return nil // being written, or of a crash; a head beyond it would tell
		case err != nil:
			return corrupt("entry %d cannot be read: %v", walk.Next, err)
		}
		hash := chain.Sum(payload)
		if err := walk.Step(entry.Seq, entry.Prev, entry.Time, hash); err != nil {
			return corrupt("%v", err)
		}
		if l.First == 0 {
			l.First = entry.Seq
		}
		l.Last = entry.Seq
		l.Records = append(l.Records, recordOf(entry, hash))
		data = rest
	}
}

// recordOf names the fields of an entry; what a later version added is left out.
func recordOf(e chain.Entry, hash chain.Hash) Record {
	r := Record{Seq: e.Seq, TimeUS: e.Time, Kind: e.Kind, Hash: hash, Prev: e.Prev}
	text := func(i int) string {
		if i < len(e.Fields) {
			return string(e.Fields[i])
		}
		return ""
	}
	switch e.Kind {
	case KindStarted, KindHeld: // held ones were written by earlier versions
		r.Call, r.Tool, r.Lane = capabilities.CallID(text(0)), capabilities.ToolID(text(1)), capabilities.LaneID(text(2))
		r.Envelope, r.Principal, r.Grant = hex.EncodeToString([]byte(text(4))), capabilities.PrincipalID(text(6)), text(7)
		r.Parent = capabilities.CallID(text(8))
	case KindFinished:
		r.Call, r.Status, r.Code, r.Effect = capabilities.CallID(text(0)), capabilities.Status(text(1)), capabilities.Code(text(2)),
			capabilities.Effect(text(3))
	case KindWithdrawn: // written by earlier versions
		r.Call = capabilities.CallID(text(0))
	case KindRefused:
		r.Call, r.Tool, r.Lane = capabilities.CallID(text(0)), capabilities.ToolID(text(1)), capabilities.LaneID(text(2))
		r.Principal, r.Code = capabilities.PrincipalID(text(3)), capabilities.Code(text(4))
	case KindAnswered:
		r.Call, r.Tool, r.Lane = capabilities.CallID(text(0)), capabilities.ToolID(text(1)), capabilities.LaneID(text(2))
		r.Principal, r.Answer, r.By = capabilities.PrincipalID(text(3)), text(4), text(5)
		r.Seconds, _ = strconv.Atoi(text(6)) // written by Answered
	case KindOwner:
		r.Rules = text(0)
	case KindStopped, KindResumed:
		r.By = text(0)
	}
	return r
}

func readSegment(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxReadBytes))
}

// readHeads reads heads.json strictly: here nobody mends what is damaged.
func readHeads(path string) ([]chain.Head, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []chain.Head
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, corrupt("heads.json cannot be read: %v", err)
	}
	for _, h := range list {
		if h.Verify() != nil {
			return nil, corrupt("the head of %q in heads.json is not properly signed", h.Chain)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Chain < list[j].Chain })
	return list, nil
}

// Dirs lists the journals below a node's folder, by the names of their chains.
func Dirs(node string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(node, "journal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, e.Name())
		}
	}
	return all, nil
}
