package fs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
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
	// The owner's word counts for the file behind a link, too.
	if real, err := filepath.EvalSymlinks(filepath.Join(h.dir, rel)); err == nil {
		if err := h.opts.Check(real); err != nil {
			return "", err
		}
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
	case strings.Contains(err.Error(), "escapes from parent"):
		return outside(name)
	}
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, "The file "+capabilities.Clip(name, 200)+" cannot be worked with.")
}

// text reads a whole file.
func (h *Handler) text(name string) (string, os.FileMode, error) {
	rel, err := h.local(name)
	if err != nil {
		return "", 0, err
	}
	f, err := h.root.Open(rel)
	if err != nil {
		return "", 0, failed(name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, failed(name, err)
	}
	if !info.Mode().IsRegular() {
		return "", 0, capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q is no file", name)
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
// made.
func (h *Handler) put(name, text string, mode os.FileMode) error {
	rel, err := h.local(name)
	if err != nil {
		return err
	}
	if info, err := h.root.Lstat(rel); err == nil && !info.Mode().IsRegular() && info.Mode()&os.ModeSymlink == 0 {
		return capabilities.Errorf(capabilities.CodeInvalidArguments, "%.200q is no file", name)
	}
	if dir := filepath.Dir(rel); dir != "." {
		if err := h.root.MkdirAll(dir, 0o755); err != nil {
			return failed(name, err)
		}
	}
	if info, err := h.root.Lstat(rel); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return h.overwrite(name, rel, text) // a link stays one: the file behind it is written
	}
	beside := rel + ".handrail-new"
	f, err := h.root.OpenFile(beside, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return failed(name, err)
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = h.root.Rename(beside, rel)
	}
	if err != nil {
		return failed(name, errors.Join(err, h.root.Remove(beside)))
	}
	return nil
}

func (h *Handler) overwrite(name, rel, text string) error {
	f, err := h.root.OpenFile(rel, os.O_TRUNC|os.O_WRONLY, 0)
	if err != nil {
		return failed(name, err)
	}
	_, err = io.WriteString(f, text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return failed(name, err)
	}
	return nil
}
