package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/gateway/api"
)

// Artifacts lists the newest files first: those of the caller's own calls or, for
// operators, everybody's. call is "" for all; limit is at most 1,000, 0 the gateway's
// default.
func (c *Client) Artifacts(ctx context.Context, call capabilities.CallID, limit int) ([]api.Artifact, error) {
	list, err := get[api.ArtifactList](ctx, c, Query(Path("artifacts"), "call", string(call), "limit", number(limit)))
	return list.Artifacts, err
}

// RemoveArtifact removes a file before its time.
func (c *Client) RemoveArtifact(ctx context.Context, id capabilities.ArtifactID) error {
	return c.Do(ctx, http.MethodDelete, Path("artifacts", string(id)), nil, nil)
}

// fetchTries is how often a download goes on after a cut.
const fetchTries = 5

// ErrNotWhole is the error, by errors.Is, when a file's bytes are not what its ID
// says: what was written is not the file.
var ErrNotWhole = errors.New("the file did not arrive whole")

// FetchArtifact writes the bytes of a file to w and checks them against its ID; what
// was written counts only if there is no error. A download that is cut goes on where
// it was.
func (c *Client) FetchArtifact(ctx context.Context, id capabilities.ArtifactID, w io.Writer) error {
	want, err := id.Sum()
	if err != nil {
		return err
	}
	sum := sha256.New()
	into := io.MultiWriter(w, sum)
	done := int64(0)
	for try := 0; ; try++ {
		n, err := c.fetchFrom(ctx, id, done, into)
		done += n
		var cut *cutError
		switch {
		case err == nil:
			if [32]byte(sum.Sum(nil)) != want {
				return ErrNotWhole
			}
			return nil
		case !errors.As(err, &cut) || try+1 == fetchTries || ctx.Err() != nil:
			return err
		}
	}
}

// cutError is a download that ended before its end: the rest may be had.
type cutError struct{ cause error }

func (e *cutError) Error() string   { return fmt.Sprintf("%v (%v)", ErrNotWhole, e.cause) }
func (e *cutError) Unwrap() []error { return []error{ErrNotWhole, e.cause} }

func (c *Client) fetchFrom(ctx context.Context, id capabilities.ArtifactID, from int64, w io.Writer) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+Path("artifacts", string(id)), nil)
	if err != nil {
		return 0, err
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := c.Send(req)
	if err != nil {
		return 0, c.Unreachable(ctx, err)
	}
	defer resp.Body.Close()
	wanted := http.StatusOK
	if from > 0 {
		wanted = http.StatusPartialContent
	}
	if resp.StatusCode != wanted {
		return 0, DecodeError(resp)
	}
	body := &watched{Reader: resp.Body}
	n, err := io.Copy(w, body)
	if body.err != nil {
		return n, &cutError{body.err}
	}
	return n, err
}

// watched tells an error of reading from one of writing.
type watched struct {
	io.Reader
	err error
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
