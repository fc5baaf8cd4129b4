package tree

import "golang.org/x/mod/sumdb/tlog"

// A tree is kept as the nodes of each eighth level, whole ones alone: a node for 256 packets, one
// for 65,536, and so on. The nodes between them are made when they are asked for.
const (
	Levels = 8
	Wide   = 1 << Levels // nodes, or leaves, below a kept node
)

// Kept returns n nodes of a kept level from number first on: level 0 is the leaves, each further
// one stands eight levels of the tree above.
type Kept func(level int, first, n int64) ([]tlog.Hash, error)

// ReadHashes makes any nodes of the tree from those that are kept (tlog.HashReader).
func (k Kept) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		level, n := tlog.SplitStoredHashIndex(index)
		below := int64(1) << (level % Levels)
		hashes, err := k(level/Levels, n*below, below)
		if err != nil {
			return nil, err
		}
		out[i] = Fold(hashes)
	}
	return out, nil
}

// Fold returns the node above hashes, whose number is a power of two. They are overwritten.
func Fold(hashes []tlog.Hash) tlog.Hash {
	for n := len(hashes); n > 1; n /= 2 {
		for i := range n / 2 {
			hashes[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
		}
	}
	return hashes[0]
}
