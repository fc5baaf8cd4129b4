package backup

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/store"
	"github.com/handrail-dev/handrail/pairing"
)

// format is the number of the form that this program writes, and the newest that it reads.
const format = 1

// manifestName is the first file of the archive, and storeName that of the store in it.
const (
	manifestName = "manifest.json"
	storeName    = "store.db"
	maxManifest  = 64 << 10
	siteKey      = "site.key"
)

// Manifest says what a backup is of. It is the first thing in the file, and sealed like the rest.
type Manifest struct {
	Format  int                 `json:"format"`
	Site    capabilities.SiteID `json:"site_id"`
	Version string              `json:"version"` // of the program that made it
	MadeAt  time.Time           `json:"made_at"`
	Schema  map[string]int      `json:"schema"` // of each room of the store
	// Artifacts says whether files that calls made are in it.
	Artifacts bool `json:"artifacts"`
}

// Options of Make; all are required but Artifacts and Migrations.
type Options struct {
	Dir       string // what the gateway keeps
	Lock      Lock
	Version   string
	Artifacts bool
	Now       time.Time
	// Migrations are those of every room, for a store that is no file.
	Migrations []store.Migration
}

// SnapshotName is the copy of the store that lies in the gateway's folder while a backup is made.
const SnapshotName = "store.db.snapshot"

// Make writes a backup of dir to w. The gateway may work meanwhile.
func Make(ctx context.Context, w io.Writer, o Options) (Manifest, error) {
	root, err := pairing.LoadKey(filepath.Join(o.Dir, siteKey))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, capabilities.Wrap(capabilities.CodeNotFound, err, "There is no gateway in this data directory.").
			WithHint("Name the directory of the gateway.")
	}
	if err != nil {
		return Manifest{}, err
	}
	site, err := pairing.NewSite(root)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Format: format, Site: site.ID(), Version: o.Version, MadeAt: o.Now.UTC().Truncate(time.Second), Artifacts: o.Artifacts}
	snapshot := filepath.Join(o.Dir, SnapshotName)
	// The store first: a file beside it that is newer than its row is not missed, one without a row
	// is swept.
	if m.Schema, err = store.Snapshot(ctx, o.Dir, snapshot, o.Migrations); err != nil {
		return m, err
	}
	defer os.Remove(snapshot)
	sealed, err := age.Encrypt(w, o.Lock.recipients...)
	if err != nil {
		return m, store.RoomFor(err)
	}
	packed, err := gzip.NewWriterLevel(sealed, gzip.BestSpeed)
	if err != nil {
		return m, err
	}
	a := &archive{to: tar.NewWriter(packed)}
	text, err := json.Marshal(m)
	if err != nil {
		return m, err
	}
	a.bytes(manifestName, text, o.Now)
	a.file(ctx, storeName, snapshot)
	a.folder(ctx, o.Dir, o.Artifacts)
	return m, store.RoomFor(errors.Join(a.err, a.to.Close(), packed.Close(), sealed.Close()))
}

// archive writes files; the first error ends it.
type archive struct {
	to  *tar.Writer
	err error
}

func (a *archive) bytes(name string, text []byte, at time.Time) {
	if a.err == nil {
		a.err = a.to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), ModTime: at, Typeflag: tar.TypeReg})
	}
	if a.err == nil {
		_, a.err = a.to.Write(text)
	}
}

// file adds what a file holds at this moment. One that is gone was removed while the gateway
// worked, and is left out.
func (a *archive) file(ctx context.Context, name, from string) {
	if a.err != nil {
		return
	}
	f, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		a.err = err
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		a.err = err
		return
	}
	a.err = a.to.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime(), Typeflag: tar.TypeReg})
	if a.err == nil {
		_, a.err = io.CopyN(a.to, reader{ctx, f}, info.Size())
	}
}

// reader ends with its context.
type reader struct {
	//lint:ignore containedctx the life of the read
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// folder adds the keys, the policy and the files that calls made.
func (a *archive) folder(ctx context.Context, dir string, artifacts bool) {
	if a.err != nil {
		return
	}
	a.err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		switch {
		case name == ".":
		case d.IsDir() && (!travels(name) || name == "artifacts" && !artifacts):
			return fs.SkipDir
		case !d.IsDir() && travels(name):
			a.file(ctx, name, at)
		}
		return a.err
	})
}

// travels reports whether a file of the gateway's folder belongs to the site: not what is of this
// process or this machine, nor the store, whose copy is in the archive already.
func travels(name string) bool {
	base := path.Base(name)
	return !strings.HasPrefix(base, ".") && !strings.HasPrefix(base, storeName) && base != "store.url" &&
		!strings.HasPrefix(base, "gateway.json") &&
		!strings.HasSuffix(base, ".new")
}

// Open reads the manifest of a backup. The archive's other files follow by Unpack or Check.
func Open(r io.Reader, k Key) (*Archive, error) {
	plain, err := age.Decrypt(r, k.identities...)
	var wrong *age.NoIdentityMatchError
	if errors.As(err, &wrong) {
		return nil, capabilities.Wrap(capabilities.CodeBackupLocked, err, "")
	}
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeBackupDamaged, err, "This is not a whole backup.")
	}
	packed, err := gzip.NewReader(plain)
	if err != nil {
		return nil, damaged(err)
	}
	a := &Archive{plain: plain, packed: packed, from: tar.NewReader(packed)}
	h, err := a.from.Next()
	if err != nil || h.Name != manifestName || h.Size > maxManifest {
		return nil, damaged(err)
	}
	text, err := io.ReadAll(a.from)
	if err != nil {
		return nil, damaged(err)
	}
	if err := json.Unmarshal(text, &a.Manifest); err != nil || a.Manifest.Format == 0 || a.Manifest.Site == "" {
		return nil, damaged(err)
	}
	if a.Manifest.Format > format {
		return nil, capabilities.Errorf(capabilities.CodeVersionSkew, "The backup was made by a newer program (%s).", a.Manifest.Version).
			WithHint("Use that version, or a newer one.")
	}
	return a, nil
}

func damaged(err error) error { return capabilities.Wrap(capabilities.CodeBackupDamaged, err, "") }

// Archive is an open backup. Unpack or Check reads it to its end, once.
type Archive struct {
	Manifest Manifest
	plain    io.Reader
	packed   *gzip.Reader
	from     *tar.Reader
}

// Newer returns an error if the store in the backup has steps that migrations does not know.
func (a *Archive) Newer(migrations []store.Migration) error {
	err := store.Newer(a.Manifest.Schema, migrations)
	var skew *capabilities.Error
	if errors.As(err, &skew) {
		return capabilities.Wrap(capabilities.CodeVersionSkew, err,
			fmt.Sprintf("The backup was made by a newer program (%s).", a.Manifest.Version)).WithHint("Use that version, or a newer one.")
	}
	return err
}

// Check reads the backup to its end and keeps nothing. It returns how many files and bytes there
// are.
func (a *Archive) Check(ctx context.Context) (files int, bytes int64, err error) {
	err = a.each(func(_ string, r io.Reader) error {
		n, err := io.Copy(io.Discard, reader{ctx, r})
		files++
		bytes += n
		return err
	})
	return files, bytes, err
}

// Unpack writes the files into dir, which must be empty. They count only once it has returned nil:
// the backup's last byte proves the ones before.
func (a *Archive) Unpack(ctx context.Context, dir string) error {
	return a.each(func(name string, r io.Reader) error {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return written{err}
		}
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return written{err}
		}
		_, err = io.Copy(into{f}, reader{ctx, r})
		if err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// written marks an error of the disk that is written to, as opposed to one of the backup.
type written struct{ error }

func (w written) Unwrap() error { return w.error }

// into marks the errors of writing.
type into struct{ f *os.File }

// Write implements io.Writer.
func (i into) Write(p []byte) (int, error) {
	n, err := i.f.Write(p)
	if err != nil {
		err = written{err}
	}
	return n, err
}

// each calls do with every file, and then sees that the backup is whole.
func (a *Archive) each(do func(name string, r io.Reader) error) error {
	stored := false
	for {
		h, err := a.from.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return reading(err)
		}
		if h.Typeflag != tar.TypeReg || !fs.ValidPath(h.Name) || strings.ContainsAny(h.Name, `\:`) || slices.Contains([]string{".", manifestName}, h.Name) {
			return damaged(fmt.Errorf("an entry %.100q", h.Name))
		}
		stored = stored || h.Name == storeName
		if err := do(h.Name, a.from); err != nil {
			return reading(err)
		}
	}
	// The rest after the archive is read, too: only its end proves that nothing was cut off.
	for _, rest := range []io.Reader{a.packed, a.plain} {
		if _, err := io.Copy(io.Discard, rest); err != nil {
			return reading(err)
		}
	}
	if !stored {
		return damaged(errors.New("no store in it"))
	}
	return nil
}

// reading returns an error that came while a backup was read with its code.
func reading(err error) error {
	var disk written
	if errors.As(err, &disk) || errors.Is(err, context.Canceled) {
		return store.RoomFor(err)
	}
	return damaged(err)
}
