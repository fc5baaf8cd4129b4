package webhook

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/canonical"
)

// Bounds of the file.
const (
	maxFile  = 64 << 10
	maxHooks = 16
	minKey   = 24
	maxKey   = 64
)

// Key signs messages; the receiver has the same. It does not print.
type Key struct{ bytes []byte }

// String hides the key.
func (Key) String() string { return "whsec_…" }

// GoString hides the key.
func (k Key) GoString() string { return k.String() }

// LogValue hides the key.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Hook is one receiver.
type Hook struct {
	URL *url.URL
	Key Key
}

// Load reads the receivers from a file:
//
//	{"version": 1, "hooks": [{"url": "https://example.com/handrail", "key": "whsec_BASE64"}]}
//
// A key has 24 to 64 bytes. No file is no receivers. The address is https, or
// http to this host.
func Load(path string) ([]Hook, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	if info.Size() > maxFile {
		return nil, bad("%s is larger than %d bytes", path, maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	hooks, err := parse(data)
	if err != nil {
		return nil, bad("%s: %s", path, capabilities.AsError(err).PublicMessage())
	}
	return hooks, nil
}

func parse(data []byte) ([]Hook, error) {
	clean, err := canonical.Parse(data, canonical.Limits{MaxBytes: maxFile})
	if err != nil {
		return nil, err
	}
	var file struct {
		Version int `json:"version"`
		Hooks   []struct {
			URL string `json:"url"`
			Key string `json:"key"`
		} `json:"hooks"`
	}
	dec := json.NewDecoder(strings.NewReader(string(clean)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&file); err != nil {
		return nil, bad("it is not of the form that is documented")
	}
	if file.Version != 1 || len(file.Hooks) > maxHooks {
		return nil, bad("version must be 1, with at most %d hooks", maxHooks)
	}
	hooks := make([]Hook, 0, len(file.Hooks))
	for i, h := range file.Hooks {
		u, ok := address.Web(h.URL)
		if !ok || u.Scheme == "http" && !onThisHost(u.Hostname()) {
			return nil, bad("hooks[%d].url must be an https address without a user's name, or http to this host", i)
		}
		text, marked := strings.CutPrefix(h.Key, "whsec_")
		key, err := base64.StdEncoding.DecodeString(text)
		if !marked || err != nil || len(key) < minKey || len(key) > maxKey {
			return nil, bad("hooks[%d].key must be whsec_ and %d to %d bytes in base64", i, minKey, maxKey)
		}
		hooks = append(hooks, Hook{URL: u, Key: Key{key}})
	}
	return hooks, nil
}

func bad(format string, args ...any) error {
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "webhooks: "+format, args...)
}

func onThisHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
