package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

// fetchFor bounds how long metadata and a program may take.
const (
	metadataFor = 30 * time.Second
	programFor  = 15 * time.Minute
)

// source is where releases lie.
type source struct {
	metadata *url.URL
	client   *http.Client
}

// newSource takes HTTPS, and HTTP of this machine alone.
func newSource(text string) (*source, error) {
	u, ok := address.Web(text)
	local := ok && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	if !ok || u.Scheme == "http" && !local {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.200q is no address of releases.", text).
			WithHint("Give the https:// URL of handrail-update.json, without a name and password.")
	}
	return &source{u, &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		return refused("%s sends elsewhere, to %.200s.", u.Host, r.URL.Redacted()).
			WithHint("Name the address where the files are themselves.")
	}}}, nil
}

// get fetches a file of at most most bytes to w, and returns how many there were.
func (s *source) get(ctx context.Context, u *url.URL, w io.Writer, most int64) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, err
	}
	answer, err := s.client.Do(r)
	if err != nil {
		var ours *capabilities.Error
		if errors.As(err, &ours) {
			return 0, ours
		}
		return 0, unreachable(u, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return 0, capabilities.Errorf(capabilities.CodeNotFound, "%s answers %s.", u.Redacted(), answer.Status).
			WithHint("See that the URL is right.")
	}
	n, err := io.Copy(w, io.LimitReader(answer.Body, most+1))
	if err != nil {
		return n, unreachable(u, err)
	}
	if n > most {
		return n, refused("%s is longer than it may be (%d bytes).", u.Redacted(), most).WithHint("Do not use it. Ask the publisher.")
	}
	return n, nil
}

func unreachable(u *url.URL, err error) error {
	return capabilities.Wrap(capabilities.CodeExecutionFailed, err, fmt.Sprintf("%s cannot be read: %v.", u.Redacted(), err)).
		WithHint("See that this machine reaches it, and do it again: nothing was changed.")
}

// stage writes the program beside the one it is to replace, if it is the one that f says.
func (s *source) stage(ctx context.Context, f File, beside string) (file string, err error) {
	ctx, done := context.WithTimeout(ctx, programFor)
	defer done()
	to, err := os.CreateTemp(filepath.Dir(beside), ".handrail-update-*")
	if err != nil {
		return "", capabilities.Wrap(capabilities.CodeForbidden, err,
			fmt.Sprintf("%s may not be written by this account.", filepath.Dir(beside))).
			WithHint("Do it as the administrator of this machine (sudo).")
	}
	defer func() {
		if err = errors.Join(err, to.Close()); err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	hash := sha256.New()
	n, err := s.get(ctx, s.metadata.JoinPath("..", f.Name), io.MultiWriter(to, hash), f.Size)
	if err != nil {
		return "", err
	}
	if n != f.Size || hex.EncodeToString(hash.Sum(nil)) != f.SHA256 {
		return "", refused("%s is not the program that the metadata names: %d bytes of %d, or others.", f.Name, n, f.Size).
			WithHint("Do it again later. If it stays so, ask the publisher.")
	}
	if err := to.Sync(); err != nil {
		return "", err
	}
	return to.Name(), to.Chmod(0o755)
}
