package ledger

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/chain"
	"github.com/handrail-dev/handrail/gateway/ledger/tree"
)

// mth is the Merkle tree hash as RFC 6962 section 2.1 defines it, without any library.
func mth(leaves []chain.Hash) tlog.Hash {
	switch n := len(leaves); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, leaves[0][:]...))
	default:
		k := 1
		for k*2 < n {
			k *= 2
		}
		left, right := mth(leaves[:k]), mth(leaves[k:])
		return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
	}
}

// TestCheckpointsAreTheTree holds checkpoints of a growing ledger against the definition, each
// against an earlier one, and packets at random against them.
func TestCheckpointsAreTheTree(t *testing.T) {
	l := open(t, Options{SegmentEntries: 256})
	random := rand.New(rand.NewPCG(1, 2))
	var leaves []chain.Hash
	var earlier []Checkpoint
	for _, size := range []int{1, 2, 3, 255, 256, 257, 512, 700, 1536} {
		for len(leaves) < size {
			var drafts []Draft
			for range size - len(leaves) {
				drafts = append(drafts, call(fmt.Sprint("call", len(drafts)))[0])
			}
			mustAppend(t, l, drafts...)
			packets := l.all(t)
			leaves = leaves[:0]
			for i := range packets {
				leaves = append(leaves, packets[i].Hash)
			}
		}
		c, err := l.Checkpoint(t.Context(), 0)
		if err != nil {
			t.Fatal(size, err)
		}
		if c.Size != uint64(size) || c.Root != mth(leaves) {
			t.Fatalf("%d packets: the checkpoint has %d, and another root", size, c.Size)
		}
		opened, err := tree.Open(c.Text, l.Key())
		if err != nil || opened != c.Checkpoint {
			t.Fatal(opened, err)
		}
		if _, err := tree.Open(c.Text, chain.PublicKey(testKey(2))); err == nil {
			t.Fatal("a checkpoint opened by another's key")
		}
		for _, e := range earlier {
			now, err := l.Checkpoint(t.Context(), e.Size)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Continues(now.Checkpoint, now.Consistency); err != nil {
				t.Fatal(e.Size, size, err)
			}
			forged := e.Checkpoint
			forged.Root[7]++
			if forged.Continues(now.Checkpoint, now.Consistency) == nil {
				t.Fatalf("another tree of %d packets is the beginning of one of %d", e.Size, size)
			}
		}
		earlier = append(earlier, c)
		for range 10 {
			seq := 1 + random.Uint64N(uint64(size))
			text := prove(t, l, seq)
			p, in, err := VerifyProof(text, l.Key())
			if err != nil || p.Seq != seq || in != c.Checkpoint {
				t.Fatal(seq, p, in, err)
			}
		}
	}
	if _, err := l.Checkpoint(t.Context(), 5000); capabilities.CodeOf(err) != capabilities.CodeInvalidRequest {
		t.Error("a checkpoint since packets that are not there:", err)
	}
	if _, err := l.Prove(t.Context(), 5000); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error("a proof of a packet that is not there:", err)
	}
}

func (l *Ledger) all(t testing.TB) []Packet {
	t.Helper()
	var all []Packet
	if err := l.scan(t.Context(), "ORDER BY seq", nil, func(p *Packet) error {
		all = append(all, *p)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func prove(t testing.TB, l *Ledger, seq uint64) string {
	t.Helper()
	p, err := l.Prove(t.Context(), seq)
	if err != nil {
		t.Fatal(seq, err)
	}
	return p.String()
}

// TestProofsOutlivePruning prunes what is old: a packet that is kept is proved as before, and what
// was proved of one that is gone still holds.
func TestProofsOutlivePruning(t *testing.T) {
	now := time.Now()
	l := open(t, Options{SegmentEntries: 256, Now: func() time.Time { return now }})
	for range 200 {
		mustAppend(t, l, call("old")...)
	}
	was := prove(t, l, 17)
	before, err := l.Checkpoint(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	mustAppend(t, l, call("new")...)
	if err := l.signAndSeal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Prune(t.Context(), now); err != nil || n != 768 {
		t.Fatal(n, err)
	}
	if _, err := l.Prove(t.Context(), 17); capabilities.CodeOf(err) != capabilities.CodeNotFound {
		t.Error("a pruned packet:", err)
	}
	if p, _, err := VerifyProof(was, l.Key()); err != nil || p.Seq != 17 {
		t.Error("its proof of before:", p, err)
	}
	after, err := l.Checkpoint(t.Context(), before.Size)
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Continues(after.Checkpoint, after.Consistency); err != nil {
		t.Error(err)
	}
	if p, _, err := VerifyProof(prove(t, l, 803), l.Key()); err != nil || p.Call != "new" {
		t.Error(p, err)
	}
}

// TestALedgerPrunedBefore has lost packets whose nodes nobody kept: it says so, and goes on.
func TestALedgerPrunedBefore(t *testing.T) {
	now := time.Now()
	l := open(t, Options{SegmentEntries: 4, Now: func() time.Time { return now }})
	for range 100 {
		mustAppend(t, l, call("old")...)
	}
	if err := l.signAndSeal(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	if n, err := l.Prune(t.Context(), now); err != nil || n != 400 {
		t.Fatal(n, err)
	}
	if _, err := l.Checkpoint(t.Context(), 0); !errors.Is(err, errNoTree) {
		t.Error(err)
	}
	for range 100 {
		mustAppend(t, l, call("new")...)
	}
	if err := l.signAndSeal(t.Context()); err != nil {
		t.Error("sealing:", err)
	}
}

// TestAProofIsOfOnePacket changes each part of a proof.
func TestAProofIsOfOnePacket(t *testing.T) {
	l := open(t, Options{})
	for range 90 {
		mustAppend(t, l, call("c")...)
	}
	text := prove(t, l, 100)
	other := prove(t, l, 101)
	lines, others := strings.Split(text, "\n"), strings.Split(other, "\n")
	for i := range lines {
		if i < len(others) && lines[i] == others[i] {
			continue
		}
		changed := strings.Join(append(append(append([]string{}, lines[:i]...), others[i]), lines[i+1:]...), "\n")
		if _, _, err := VerifyProof(changed, l.Key()); capabilities.CodeOf(err) != capabilities.CodeLedgerCorrupt {
			t.Errorf("line %d of another proof: %v", i, err)
		}
	}
	for i := range text {
		changed := []byte(text)
		changed[i] ^= 1
		if p, _, err := VerifyProof(string(changed), l.Key()); err == nil && p.Seq != 100 {
			t.Fatalf("byte %d changed: it proves packet %d", i, p.Seq)
		}
	}
	if _, _, err := VerifyProof(text, chain.PublicKey(testKey(3))); err == nil {
		t.Error("another's key")
	}
	if _, _, err := VerifyProof(text); err == nil {
		t.Error("no key")
	}
}

func FuzzVerifyProof(f *testing.F) {
	l := open(f, Options{})
	mustAppend(f, l, call("c")...)
	p, err := l.Prove(context.Background(), 2)
	if err != nil {
		f.Fatal(err)
	}
	good := p.String()
	f.Add(good)
	f.Add(good[:40])
	f.Add(strings.Replace(good, "index 1", "index 18446744073709551615", 1))
	f.Add("c2sp.org/tlog-proof@v1\nextra \nindex 0\n\nhandrail/ledger/x\n0\n")
	key := l.Key()
	f.Fuzz(func(t *testing.T, text string) {
		p, c, err := VerifyProof(text, key)
		if err == nil && (p.Seq < 1 || p.Seq > c.Size || c.Chain != "gateway-1") {
			t.Fatal(p, c)
		}
	})
}
