package journal

import (
	"bytes"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/wire"
)

// answers keeps what finished calls answered, for a gateway that lost the
// connection or its own memory: not longer than ttl and not more than limit
// bytes, the oldest going first. The bytes of blobs are not kept.
//
// They lie as frames in blocks, and nothing here points at a single one: a busy node
// keeps a hundred thousand, and the collector would look at each in every cycle.
type answers struct {
	limit int
	ttl   time.Duration

	epoch  time.Time // of kept.since
	bytes  int
	blocks []*block // oldest first; each holds an answer still
	gone   uint32   // how many blocks went before them
	at     map[callKey]location
}

type block struct {
	frames []byte // one behind the other
	kept   []kept
	gone   int // of kept, from its beginning
}

type kept struct {
	call  callKey
	end   uint32 // of its frame, in the block
	since time.Duration
}

// location is where an answer lies.
type location struct{ block, at uint32 }

const (
	blockBytes = 64 << 10 // a larger frame has a block of its own
	keptBytes  = 128      // what an answer takes beside its frame, with its entry in the index of calls
)

// frame is the answer at a place of the block.
func (b *block) frame(at int) []byte {
	begin := uint32(0)
	if at > 0 {
		begin = b.kept[at-1].end
	}
	return b.frames[begin:b.kept[at].end]
}

// add keeps a copy of an answer's frame; of none, if that is nil.
func (a *answers) add(call capabilities.CallID, frame []byte, now time.Time) {
	key := keyOf(call)
	if _, ok := a.at[key]; ok || frame == nil || keptBytes+len(frame) > a.limit {
		return // a call ends once
	}
	if a.at == nil {
		a.at, a.epoch = map[callKey]location{}, now
	}
	last := len(a.blocks) - 1
	if last < 0 || len(frame) > cap(a.blocks[last].frames)-len(a.blocks[last].frames) {
		a.blocks = append(a.blocks, &block{frames: make([]byte, 0, max(blockBytes, len(frame)))})
		last++
	}
	b := a.blocks[last]
	a.at[key] = location{a.gone + uint32(last), uint32(len(b.kept))}
	b.frames = append(b.frames, frame...)
	b.kept = append(b.kept, kept{key, uint32(len(b.frames)), now.Sub(a.epoch)})
	a.bytes += keptBytes + len(frame)
	a.drop(now)
}

func (a *answers) drop(now time.Time) {
	for len(a.blocks) > 0 {
		b := a.blocks[0]
		k := b.kept[b.gone]
		if a.bytes <= a.limit && now.Sub(a.epoch)-k.since < a.ttl {
			return
		}
		a.bytes -= keptBytes + len(b.frame(b.gone))
		delete(a.at, k.call)
		if b.gone++; b.gone == len(b.kept) {
			a.blocks[0] = nil
			a.blocks = a.blocks[1:]
			a.gone++
		}
	}
	a.at = nil
}

func (a *answers) get(call capabilities.CallID, now time.Time) *wire.Answer {
	a.drop(now)
	p, ok := a.at[keyOf(call)]
	if !ok {
		return nil
	}
	m, err := wire.NewReader(bytes.NewReader(a.blocks[p.block-a.gone].frame(int(p.at))), wire.KindAnswer).Next()
	if err != nil {
		return nil // what Encode made can be read
	}
	return m.(*wire.Answer)
}
