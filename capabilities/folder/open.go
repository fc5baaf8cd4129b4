package folder

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNoFile is returned for what is neither a file nor a folder: a pipe, a socket, a device.
var ErrNoFile = errors.New("no regular file")

// Open opens a file or folder below root that is there; flag is that of os.OpenFile. It waits for
// nobody: a pipe is ErrNoFile, also one that takes a file's place at this moment.
func Open(root *os.Root, name string, flag int) (*os.File, fs.FileInfo, error) {
	if info, err := root.Stat(name); err != nil || !opens(info) {
		return nil, nil, orNoFile(err)
	}
	f, err := root.OpenFile(name, flag|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil || !opens(info) {
		_ = f.Close()
		return nil, nil, orNoFile(err)
	}
	return f, info, nil
}

func opens(info fs.FileInfo) bool { return info.Mode().IsRegular() || info.IsDir() }

func orNoFile(err error) error {
	if err == nil {
		return ErrNoFile
	}
	return err
}
