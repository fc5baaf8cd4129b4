package store

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"
)

// reserve is a ballast file: disk that is ours already and that is given up when
// the disk is full, so that the results of calls that are running can still be
// recorded. The leader owns it. It is given up in slices, because
// whoever filled the disk may take what is free before we do.
type reserve struct {
	path  string
	size  int64
	spent atomic.Bool // begun: ordinary writes are refused until it is whole again
	tried time.Time   // last attempt to fill it again
}

const (
	// retryReserve is how long ordinary writes are refused without looking again
	// whether there is room.
	retryReserve = time.Second

	reserveSlice = 512 << 10
)

// fill makes the ballast full size. Its bytes do not compress, so that it takes real blocks
// everywhere. Without room for all of it what was there stays.
func (r *reserve) fill() error {
	if r.size <= 0 {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	had, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	random := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 64<<10)
	for left := r.size - had; left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		random.Read(block)
		if _, err = f.Write(block); err != nil {
			err = errors.Join(err, f.Truncate(had)) // a part of it would only be in the way
			break
		}
	}
	return errors.Join(err, f.Close())
}

// spend returns a slice of the ballast back to the file system. It reports whether
// there was anything to give.
func (r *reserve) spend() bool {
	info, err := os.Stat(r.path)
	if r.size <= 0 || err != nil || info.Size() == 0 {
		return false
	}
	r.spent.Store(true)
	r.tried = time.Now()
	return os.Truncate(r.path, max(0, info.Size()-reserveSlice)) == nil
}

// restored tries, at most once in retryReserve, to get the ballast back and
// reports whether ordinary writes may go on.
func (r *reserve) restored() bool {
	if !r.spent.Load() {
		return true
	}
	if time.Since(r.tried) < retryReserve {
		return false
	}
	r.tried = time.Now()
	if r.fill() != nil {
		return false
	}
	r.spent.Store(false)
	return true
}
