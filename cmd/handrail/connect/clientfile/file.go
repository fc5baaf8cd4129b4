package clientfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// ErrBusy says that the client kept rewriting its file.
var ErrBusy = errors.New("the file is being rewritten by its owner; close the client and try again")

// Options of Edit.
type Options struct {
	Private bool             // the result holds a secret: only its owner may read file and backup
	Now     func() time.Time // default time.Now; names the backup
}

// Read returns a file's bytes; a missing file is empty.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err == nil && len(data) > MaxSize {
		err = fmt.Errorf("the file is larger than %d MiB", MaxSize>>20)
	}
	return data, err
}

// Edit replaces a file by what change makes of it, whole or not at all, also across a crash, and
// keeps a copy of what was there beside it. A link is followed and stays a link. It returns the
// copy's name, "" where there was nothing to keep or to change. change may be called again if the
// file's owner rewrote it meanwhile.
func Edit(name string, o Options, change func(old []byte) ([]byte, error)) (backup string, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	for range 5 {
		old, err := Read(name)
		if err != nil {
			return "", err
		}
		new, err := change(bytes.Clone(old))
		if err != nil {
			return "", err
		}
		mode := fs.FileMode(0o600)
		info, err := os.Stat(name)
		there := err == nil
		if there && !o.Private {
			mode = info.Mode().Perm()
		}
		if bytes.Equal(old, new) && (!there || info.Mode().Perm() == mode) {
			return "", nil
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return "", err
		}
		temp, err := write(name+".handrail-*.tmp", new, mode)
		if err != nil {
			return "", err
		}
		defer os.Remove(temp)
		if there {
			if backup, err = keep(name, old, mode, o.Now()); err != nil {
				return "", err
			}
		}
		if now, err := Read(name); err != nil || !bytes.Equal(now, old) {
			if backup != "" {
				_ = os.Remove(backup)
			}
			backup = ""
			continue // its owner wrote in between
		}
		if err := os.Rename(temp, name); err != nil {
			return "", err
		}
		return backup, syncDir(filepath.Dir(name))
	}
	return "", ErrBusy
}

// write puts data durably into a new file of that pattern.
func write(pattern string, data []byte, mode fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(pattern), filepath.Base(pattern)) // mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// keep writes the copy. Two in one second get different names.
func keep(name string, data []byte, mode fs.FileMode, now time.Time) (string, error) {
	stamp := now.UTC().Format("20060102-150405")
	for i := range 100 {
		backup := fmt.Sprintf("%s.%s.bak", name, stamp)
		if i > 0 {
			backup = fmt.Sprintf("%s.%s-%d.bak", name, stamp, i)
		}
		f, err := os.OpenFile(backup, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(data)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			_ = os.Remove(backup)
			return "", err
		}
		return backup, nil
	}
	return "", fmt.Errorf("there are too many copies named %s.%s", name, stamp)
}

// syncDir makes a rename durable where the system lets directories be synced.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil // the rename is done; only its durability is not known
	}
	defer d.Close()
	_ = d.Sync() // Windows cannot
	return nil
}
