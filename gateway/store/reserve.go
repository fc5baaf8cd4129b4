package store

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"
)

// reserve is a ballast file: disk that is ours already and that is given up when
// the disk is full, so that the results of calls that are running can still be
// recorded (DESIGN section 4). The leader owns it.
type reserve struct {
	path  string
	size  int64
	spent bool      // given up: ordinary writes are refused until it is back
	tried time.Time // last attempt to fill it again
}

// retryReserve is how long ordinary writes are refused without looking again
// whether there is room.
const retryReserve = time.Second

// fill makes the ballast full size. What it holds does not compress, so that it
// takes real blocks everywhere.
func (r *reserve) fill() error {
	if r.size <= 0 {
		return nil
	}
	if info, err := os.Stat(r.path); err == nil && info.Size() == r.size {
		return nil
	}
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{1})
	block := make([]byte, 64<<10)
	for left := r.size; left > 0; left -= int64(len(block)) {
		block = block[:min(int64(len(block)), left)]
		random.Read(block)
		if _, err = f.Write(block); err != nil {
			break
		}
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		os.Remove(r.path) // a part of it would only be in the way
	}
	return err
}

// spend gives the ballast's blocks back to the file system. It reports whether
// there was anything to give.
func (r *reserve) spend() bool {
	if r.size <= 0 || r.spent {
		return false
	}
	r.spent = true
	r.tried = time.Now()
	return os.Remove(r.path) == nil
}

// restored tries, at most once in retryReserve, to get the ballast back and
// reports whether ordinary writes may go on.
func (r *reserve) restored() bool {
	if !r.spent {
		return true
	}
	if time.Since(r.tried) < retryReserve {
		return false
	}
	r.tried = time.Now()
	if r.fill() != nil {
		return false
	}
	r.spent = false
	return true
}
