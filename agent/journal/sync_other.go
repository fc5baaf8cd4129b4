//go:build !linux

package journal

import (
	"os"
	"runtime"
)

func syncData(f *os.File) error { return f.Sync() }

// syncDir makes a new name durable; Windows has no such call and needs none.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
