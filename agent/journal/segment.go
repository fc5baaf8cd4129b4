package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/chain"
)

// A segment is a file "journal-SEQ.log", SEQ being the sequence number of its
// first record. It is filled with zeros ahead of its use, because syncing bytes
// inside a file costs less than making it longer. Records follow one another from
// offset 0:
//
//	uint32 BE length of payload, not 0 | uint32 BE CRC-32C of payload | payload
//
// and the payload is the preimage of the entry's hash (chain.AppendEntry). The
// first length of 0 ends the segment.
const (
	recordHead = 8
	maxRecord  = 4 << 10
	pageSize   = 4 << 10 // of files; a larger one only costs a read
	maxFields  = 12
	// spare is the end of a segment that only Finished may use: room for the ends
	// of running calls when no new segment can be made because the disk is full.
	spare = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealRecord fills in the head of a record whose payload is in place.
func sealRecord(record []byte) {
	payload := record[recordHead:]
	binary.BigEndian.PutUint32(record, uint32(len(payload)))
	binary.BigEndian.PutUint32(record[4:], crc32.Checksum(payload, castagnoli))
}

// errTorn says that what stands there is no whole record.
var errTorn = errors.New("journal: not a whole record")

// nextRecord takes the first record of b. io.EOF is the proper end; errTorn
// anything that was not written to its end.
func nextRecord(b []byte) (entry chain.Entry, payload, rest []byte, err error) {
	var n uint32
	if len(b) >= recordHead {
		n = binary.BigEndian.Uint32(b)
	}
	switch {
	case n == 0 && len(trimZeros(b)) == 0:
		return entry, nil, nil, io.EOF
	case n == 0, n > maxRecord, int(n) > len(b)-recordHead:
		return entry, nil, nil, errTorn
	}
	payload = b[recordHead : recordHead+n]
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(b[4:]) {
		return entry, nil, nil, errTorn
	}
	if entry, err = chain.DecodeEntry(payload, maxFields); err != nil {
		return chain.Entry{}, nil, nil, fmt.Errorf("journal: %w", err)
	}
	return entry, payload, b[recordHead+n:], nil
}

var zeroBlock [pageSize]byte

func trimZeros(b []byte) []byte {
	for len(b) >= len(zeroBlock) && bytes.Equal(b[len(b)-len(zeroBlock):], zeroBlock[:]) {
		b = b[:len(b)-len(zeroBlock)]
	}
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("journal-%016d.log", first))
}

// segments lists the first sequence numbers of the segments in dir, in order.
func segments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var firsts []uint64
	for _, e := range entries {
		digits, isLog := strings.CutSuffix(e.Name(), ".log")
		digits, isOurs := strings.CutPrefix(digits, "journal-")
		if !isLog || !isOurs {
			continue
		}
		first, err := strconv.ParseUint(digits, 10, 64)
		if err != nil || segmentPath(dir, first) != filepath.Join(dir, e.Name()) {
			return nil, fmt.Errorf("%q is not a segment's name", e.Name())
		}
		firsts = append(firsts, first)
	}
	slices.Sort(firsts)
	return firsts, nil
}

// createSegment makes a segment of zeros and makes its existence durable. A part
// of one, left by a crash, is filled up.
func createSegment(dir string, first uint64, size int64) (*os.File, error) {
	path := segmentPath(dir, first)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = fillZeros(f, 0, size)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		f.Close()
		os.Remove(path)
		return nil, err
	}
	return f, nil
}

func fillZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, min(to-from, 256<<10))
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}
