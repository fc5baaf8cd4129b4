package store

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// URL is the address of a store in PostgreSQL. Nothing that prints it shows its password.
type URL string

const hiddenSecret = "hidden"

// Password reports whether the address itself holds a password.
func (u URL) Password() bool {
	at, err := url.Parse(string(u))
	if err != nil {
		return false
	}
	_, set := at.User.Password()
	return set || at.Query().Has("password") || at.Query().Has("sslpassword")
}

// String returns the address with its password hidden.
func (u URL) String() string {
	at, err := url.Parse(string(u))
	switch {
	case u == "":
		return ""
	case err != nil:
		return hiddenSecret
	}
	if _, set := at.User.Password(); set {
		at.User = url.UserPassword(at.User.Username(), hiddenSecret)
	}
	q := at.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, hiddenSecret)
		}
	}
	at.RawQuery = q.Encode()
	return at.String()
}

// GoString, LogValue and MarshalText hide it as well.
func (u URL) GoString() string             { return u.String() }
func (u URL) LogValue() slog.Value         { return slog.StringValue(u.String()) }
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// Check returns an error if that is no address of a store.
func (u URL) Check() error {
	_, err := parseURL(string(u))
	return err
}

// The files of a gateway's folder that say where its store lies. Without placeName it is FileName.
const (
	FileName  = "store.db"
	placeName = "store.url"
	movedName = "store.db.moved"
)

// PlaceOf returns where the store of a gateway's folder lies: "" is the file in it.
func PlaceOf(dir string) (URL, error) {
	text, err := os.ReadFile(filepath.Join(dir, placeName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	u := URL(strings.TrimSpace(string(text)))
	return u, u.Check()
}

// Settle has the folder say from now on that its store lies at u. An address with a password is
// refused: it comes from a file of PostgreSQL's own.
func Settle(dir string, u URL) error {
	if u.Password() {
		return errors.New("store: an address with a password is not written down")
	}
	at := filepath.Join(dir, placeName)
	f, err := os.OpenFile(at+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return RoomFor(err)
	}
	_, err = f.WriteString(string(u) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return RoomFor(err)
	}
	return errors.Join(os.Rename(at+".new", at), syncFolder(dir))
}

// syncFolder makes names that were changed in it last, where the system can.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = f.Sync() // not every system lets a folder be synced
	return f.Close()
}

// In returns the options that open the store of a gateway's folder; u is where its admin says that
// it lies, or "" for where it lay before. A folder with a file of its own is not given another
// store beside it.
func In(dir string, u URL, o Options) (Options, error) {
	known, err := PlaceOf(dir)
	if err != nil {
		return o, err
	}
	file := filepath.Join(dir, FileName)
	switch _, err := os.Stat(file); {
	case known == "" && u == "":
		o.Path = file
		return o, nil
	case err == nil && known == "":
		return o, capabilities.Errorf(capabilities.CodeConflict, "The site's store is the file %s, and not at that address.", file).
			WithHint("Move it there first; then the gateway finds it.")
	case err == nil: // a move ended before its last step
		if err := retire(dir); err != nil {
			return o, err
		}
	}
	o.Existing = known != ""
	if o.URL = u; u == "" {
		o.URL = known
	}
	return o, nil
}

// Settled writes down where a store lies that was opened by In.
func (o Options) Settled(dir string) error {
	if o.URL == "" {
		return nil
	}
	known, err := PlaceOf(dir)
	if bare := o.URL.bare(); err == nil && known != bare {
		err = Settle(dir, bare)
	}
	return err
}

// bare returns the address without its password.
func (u URL) bare() URL {
	at, err := url.Parse(string(u))
	if err != nil {
		return ""
	}
	if at.User != nil {
		at.User = url.User(at.User.Username())
	}
	q := at.Query()
	q.Del("password")
	q.Del("sslpassword")
	at.RawQuery = q.Encode()
	return URL(at.String())
}

// retire puts the file aside that was moved elsewhere, as it was.
func retire(dir string) error {
	for _, end := range []string{"-wal", "-shm", ""} {
		err := os.Rename(filepath.Join(dir, FileName+end), filepath.Join(dir, movedName+end))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, end := range []string{".lock", ".reserve"} {
		if err := os.Remove(filepath.Join(dir, FileName+end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return syncFolder(dir)
}
