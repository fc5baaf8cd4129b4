package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/handrail-dev/handrail/capabilities"
)

// laneFolder is a lane's name as a folder's: readable, and never another's.
func laneFolder(id capabilities.LaneID) string {
	sum := sha256.Sum256([]byte(id))
	readable := strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-') {
			return r
		}
		return '_'
	}, capabilities.Clip(string(id), 40))
	return readable + "-" + hex.EncodeToString(sum[:4])
}

// safeName makes a file name, which a server chose, one that every system takes
// and that leads nowhere.
func safeName(name string) string {
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar:
			return -1
		case strings.ContainsRune(`<>:"|?*`, r):
			return '_'
		}
		return r
	}, capabilities.Printable(name))
	name = strings.Trim(name, ". ")
	if len(name) > 150 {
		end := filepath.Ext(name)
		if len(end) > 20 {
			end = ""
		}
		name = strings.TrimRight(capabilities.Clip(name, 150-len(end)), ". ") + end
	}
	stem, _, _ := strings.Cut(strings.ToUpper(name), ".")
	switch {
	case name == "":
		return "download"
	case stem == "CON" || stem == "PRN" || stem == "AUX" || stem == "NUL" ||
		len(stem) == 4 && (strings.HasPrefix(stem, "COM") || strings.HasPrefix(stem, "LPT")) && stem[3] >= '0' && stem[3] <= '9':
		return "_" + name
	}
	return name
}

// freeName returns a name that the folder does not hold yet.
func freeName(root *os.Root, dir, name string) (string, error) {
	ext := filepath.Ext(name)
	for i := range 1000 {
		try := name
		if i > 0 {
			try = strings.TrimSuffix(name, ext) + " (" + strconv.Itoa(i) + ")" + ext
		}
		try = filepath.Join(dir, try)
		if _, err := root.Lstat(try); errors.Is(err, os.ErrNotExist) {
			return try, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", errors.New("no free name")
}

// openPlain opens a file that another account may have made: only a plain one,
// and without waiting on what only looks like one.
func openPlain(root *os.Root, name string) (*os.File, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, errors.New("not a plain file")
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !after.Mode().IsRegular() || !os.SameFile(before, after) {
		f.Close()
		return nil, errors.New("the file was replaced while it was opened")
	}
	return f, nil
}
