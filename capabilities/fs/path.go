package fs

import (
	"crypto/rand"
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/folder"
)

// maxFile bounds the files that are worked with as text.
const maxFile = 8 << 20

// local returns a caller's name as one below the workspace: relative, or absolute and inside.
// Links are the business of os.Root, which follows none that leads out.
func (h *Handler) local(name string) (string, error) {
	rel := name
	if filepath.IsAbs(name) {
		var err error
		if rel, err = filepath.Rel(h.dir, filepath.Clean(name)); err != nil {
			return "", outside(name)
		}
	}
	if rel = filepath.Clean(rel); !filepath.IsLocal(rel) {
		return "", outside(name)
	}
	if err := h.opts.Check(filepath.Join(h.dir, rel)); err != nil {
		return "", err
	}
	// The owner's word counts for the file behind a link, too, and for one that is to be made there.
	if err := h.opts.Check(folder.Real(filepath.Join(h.dir, rel))); err != nil {
		return "", err
	}
	return rel, nil
}

func outside(name string) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q lies outside the workspace", name)
}

// shown is a path as results have it: relative, with slashes.
func shown(rel string) string { return filepath.ToSlash(rel) }

// failed words an error of the file system.
func failed(name string, err error) error {
	var own *capabilities.Error
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, iofs.ErrNotExist):
		return capabilities.Errorf(capabilities.CodeNotFound, "there is no file %.200q", name)
	case errors.Is(err, iofs.ErrPermission):
		return capabilities.Errorf(capabilities.CodeForbidden, "%.200q may not be opened", name)
	case errors.Is(err, folder.ErrNoFile):
		return noFile(name)
	case strings.Contains(err.Error(), "escapes from parent"):
		return outside(name)
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The file "+capabilities.Clip(name, 200)+" cannot be worked with.")
}

func noFile(name string) error {
	return capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q is no file", name)
}

// text reads a whole file.
func (h *Handler) text(name string) (string, os.FileMode, error) {
	rel, err := h.local(name)
	if err != nil {
		return "", 0, err
	}
	f, info, err := folder.Open(h.root, rel, os.O_RDONLY)
	if err != nil {
		return "", 0, failed(name, err)
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return "", 0, noFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", 0, failed(name, err)
	case len(data) > maxFile:
		return "", 0, capabilities.Errorf(capabilities.CodeResultTooLarge, "%.200q has more than %d bytes", name, maxFile)
	}
	return string(data), info.Mode().Perm(), nil
}

// put writes a file whole: beside it first, and then in its place. Folders that are missing are
// made. A file that stood there passes its mode on; mode is that of a new one.
func (h *Handler) put(name, text string, mode os.FileMode) error {
	rel, err := h.local(name)
	if err != nil {
		return err
	}
	info, err := h.root.Lstat(rel)
	stood := err == nil
	switch {
	case !stood:
	case info.Mode()&os.ModeSymlink != 0:
		return h.overwrite(name, rel, text) // a link stays one: the file behind it is written
	case !info.Mode().IsRegular():
		return noFile(name)
	default:
		mode = info.Mode().Perm()
	}
	if dir := filepath.Dir(rel); dir != "." {
		if err := h.root.MkdirAll(dir, 0o755); err != nil {
			return failed(name, err)
		}
		if rel, err = h.local(name); err != nil { // where it leads, now that it is there
			return err
		}
	}
	// A name that nobody can have put a link under.
	beside := filepath.Join(filepath.Dir(rel), ".handrail-"+rand.Text())
	f, err := h.root.OpenFile(beside, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return failed(name, err)
	}
	if stood {
		err = keepMode(f, mode)
	}
	if err == nil {
		_, err = io.WriteString(f, text)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = h.root.Rename(beside, rel)
	}
	if err != nil {
		return failed(name, errors.Join(err, h.root.Remove(beside)))
	}
	return nil
}

// keepMode has a new file be of a mode, whatever this process takes from new files.
func keepMode(f *os.File, mode os.FileMode) error {
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() == mode {
		return err
	}
	return f.Chmod(mode)
}

// overwrite writes the file behind a link.
func (h *Handler) overwrite(name, rel, text string) error {
	f, info, err := folder.Open(h.root, rel, os.O_WRONLY)
	if err != nil {
		return failed(name, err)
	}
	if !info.Mode().IsRegular() {
		_ = f.Close()
		return noFile(name)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = io.WriteString(f, text)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(name, err)
	}
	return nil
}
