package procguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/handrail-dev/handrail/platform"
)

// A lent folder lives in three places beside its home: HOME.lock is held while a
// guard has it, HOME.holder says who that is, and HOME.new and HOME.old exist only
// while it is taken back. A child that runs under another account could not reach
// the home itself, and must not: so its content travels.

// maxLent bounds what is copied either way.
const maxLent = 2 << 30

var errLocked = errors.New("locked")

// homeWait is how long a guard that is just bringing a folder home is waited for.
const homeWait = 10 * time.Second

// lockHome makes the home and takes its lock.
func lockHome(ctx context.Context, l *platform.Lend) (*os.File, error) {
	if !filepath.IsAbs(l.Home) || l.Name == "" || filepath.Base(l.Name) != l.Name {
		return nil, fmt.Errorf("lending %q as %q: want an absolute folder and a plain name", l.Home, l.Name)
	}
	if err := os.MkdirAll(filepath.Dir(l.Home), 0o700); err != nil {
		return nil, err
	}
	holder := l.Home + ".holder"
	for began := time.Now(); ; {
		lock, err := lockFile(l.Home + ".lock")
		if err == nil {
			if err := os.WriteFile(holder, fmt.Appendf(nil, "%d\n%s", os.Getpid(), l.Note), 0o600); err != nil {
				lock.Close()
				return nil, err
			}
			return lock, nil
		}
		if err != errLocked {
			return nil, err
		}
		// Without a holder, or a living one, its guard is about to let go.
		note, coming := holderOf(holder)
		if !coming || time.Since(began) > homeWait {
			return nil, &platform.LentError{Note: note}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// holderOf reads who has a home; coming is true if that one has let go or died.
func holderOf(file string) (note string, coming bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", errors.Is(err, fs.ErrNotExist)
	}
	first, note, _ := strings.Cut(string(data), "\n")
	pid, err := strconv.Atoi(first)
	return note, err == nil && !running(pid)
}

// lendOut copies the home into the scratch folder, as the child's.
func lendOut(s spec) error {
	home := s.Lend.Home
	if _, err := os.Lstat(home); errors.Is(err, fs.ErrNotExist) {
		// A power cut between the two renames of takeBack.
		if err := os.Rename(home+".old", home); errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(home, 0o700)
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	to := filepath.Join(s.Scratch, s.Lend.Name)
	if err := copyFolder(home, to, nil, s.User, nil); err != nil {
		return fmt.Errorf("lending: %w", err)
	}
	return nil
}

// takeBack copies what the child left behind home, in one step.
func takeBack(s spec) error {
	home := s.Lend.Home
	fresh, old := home+".new", home+".old"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	err := copyFolder(filepath.Join(s.Scratch, s.Lend.Name), fresh, s.User, nil, s.Lend.Leave)
	if err == nil {
		err = os.RemoveAll(old)
	}
	if err == nil {
		err = os.Rename(home, old)
	}
	if err == nil {
		err = os.Rename(fresh, home)
	}
	if err != nil {
		os.RemoveAll(fresh)
		return err
	}
	os.Remove(home + ".holder")
	return os.RemoveAll(old)
}

// copyFolder copies folders and plain files. A file that comes from an account (from) has to be
// that account's; one that goes to an account becomes its own.
func copyFolder(src, dst string, from, to *platform.User, leave []string) error {
	source, err := os.OpenRoot(src)
	if err != nil {
		return err
	}
	defer source.Close()
	var total int64
	return fs.WalkDir(source.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := source.Lstat(name)
		if err != nil {
			return err
		}
		path := filepath.Join(dst, filepath.FromSlash(name))
		switch {
		case d.IsDir() && slices.Contains(leave, d.Name()):
			return fs.SkipDir
		case !info.IsDir() && !info.Mode().IsRegular(), !owned(info, from):
			if info.IsDir() {
				return fs.SkipDir
			}
			return nil // links, sockets, and what is somebody else's
		case info.IsDir():
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			return giveTo(path, to)
		}
		if total += info.Size(); total > maxLent {
			return fmt.Errorf("more than %d bytes", int64(maxLent))
		}
		if err := copyFile(source, name, path, info); err != nil {
			return err
		}
		return giveTo(path, to)
	})
}

func copyFile(source *os.Root, name, path string, info fs.FileInfo) error {
	in, err := source.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// No further than it was: it is nobody's any more, but a bound is a bound.
	_, err = io.Copy(out, io.LimitReader(in, info.Size()))
	return errors.Join(err, out.Close())
}
