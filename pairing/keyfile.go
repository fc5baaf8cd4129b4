package pairing

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/handrail-dev/handrail/capabilities"
)

const pemType = "PRIVATE KEY"

// NewKey makes an Ed25519 key.
func NewKey() (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return key, err
}

// LoadKey reads a key file (PKCS #8 in PEM). A file that others may read is
// refused, because then others may have read it. A missing file is fs.ErrNotExist.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, capabilities.Errorf(capabilities.CodeForbidden, "the key file %s can be read by others", path).
			WithHint("Run 'chmod 600' on it if nobody else has read it; otherwise replace the key.")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != pemType || len(rest) != 0 {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "the key file %s is not a private key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, capabilities.Errorf(capabilities.CodeInternal, "the key file %s does not hold an Ed25519 key", path)
	}
	return key, nil
}

// SaveKey writes a key file that only its owner can read, whole or not at all.
func SaveKey(path string, key ed25519.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return SaveFile(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
}

// LoadOrCreateKey reads the key file, or makes a key and writes it.
func LoadOrCreateKey(path string) (key ed25519.PrivateKey, created bool, err error) {
	key, err = LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	if key, err = NewKey(); err != nil {
		return nil, false, err
	}
	return key, true, SaveKey(path, key)
}

// SaveFile replaces a private file whole or not at all, also across a crash.
func SaveFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	// The rename is durable once the folder is; where folders cannot be synced
	// (Windows), the rename is the system's own affair.
	if dir, openErr := os.Open(filepath.Dir(path)); openErr == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}
