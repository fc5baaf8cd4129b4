package journal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
)

// macLife is how long one digest key lives: after that the digests in the
// journal can be compared with nothing any more.
const macLife = 24 * time.Hour

// macKey is the key under which arguments and outputs are digested, in a file
// beside the journal that is overwritten daily (a short typed
// PIN must not be guessable from a digest).
type macKey struct {
	path string
	now  func() time.Time

	mu    sync.RWMutex
	key   []byte
	since time.Time
}

func openMACKey(path string, now func() time.Time) (*macKey, error) {
	m := &macKey{path: path, now: now}
	data, err := os.ReadFile(path)
	if err == nil && len(data) == sha256.Size {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		m.key, m.since = data, info.ModTime()
	} else if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return m, m.rotate()
}

// rotate makes a new key if there is none or it is too old.
func (m *macKey) rotate() error {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.key != nil && now.Sub(m.since) < macLife {
		return nil
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	if err := replaceFile(m.path, key); err != nil {
		return err
	}
	m.key, m.since = key, now
	return nil
}

func (m *macKey) digest(call capabilities.CallID, what string, data []byte) []byte {
	m.mu.RLock()
	key := m.key
	m.mu.RUnlock()
	h := hmac.New(sha256.New, key)
	h.Write([]byte(call))
	h.Write([]byte{0})
	h.Write([]byte(what))
	h.Write([]byte{0})
	h.Write(data)
	return h.Sum(nil)
}
