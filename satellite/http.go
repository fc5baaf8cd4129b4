package satellite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/canonical"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools/remote"
)

// httpManifest is what an admin writes of an HTTP service that takes JSON.
type httpManifest struct {
	Check           string     `json:"check,omitempty"` // path that answers 2xx while the service is well
	Interchangeable bool       `json:"interchangeable,omitempty"`
	Tools           []httpTool `json:"tools"`
}

type httpTool struct {
	tools.RemoteTool
	Path string `json:"path,omitempty"` // default: /NAME
}

// HTTP fills o with the tools of an HTTP service: each call is a POST of its arguments, as JSON, to
// base and the tool's path. JSON that comes back is the result's data, text its text, and any other
// content its bytes. The service is asked at the manifest's check, and is well without one if it
// answers at all. It is called directly, without a proxy, and no redirect is followed.
func HTTP(o *Options, base string, manifest []byte) error {
	at, err := url.Parse(base)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the address is an http or https one without a user")
	}
	var m httpManifest
	if len(manifest) > tools.MaxManifest {
		return capabilities.Errorf(capabilities.CodeInvalidRequest, "the manifest has more than %d bytes", tools.MaxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(manifest))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The manifest cannot be read: "+err.Error())
	}
	client := &http.Client{
		Transport: &http.Transport{
			MaxIdleConns: 16, IdleConnTimeout: time.Minute, ResponseHeaderTimeout: 10 * time.Minute, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	o.Interchangeable = o.Interchangeable || m.Interchangeable
	for _, t := range m.Tools {
		to := at.JoinPath(t.Path)
		if t.Path == "" {
			to = at.JoinPath(t.Name)
		}
		o.Tools = append(o.Tools, Offer(t.RemoteTool, func(ctx context.Context, c Call) (Result, error) {
			return post(ctx, client, to.String(), c.Args, t.ReadOnly != nil && *t.ReadOnly)
		}))
	}
	o.Check = func(ctx context.Context) error {
		return asks(ctx, client, at.JoinPath(m.Check).String(), m.Check != "")
	}
	return nil
}

// asks reports whether a service answers; strictly: with 2xx.
func asks(ctx context.Context, client *http.Client, to string, strictly bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("the service does not answer: %w", err)
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
	if strictly && answer.StatusCode/100 != 2 || answer.StatusCode >= 500 {
		return fmt.Errorf("the service answers %s", answer.Status)
	}
	return nil
}

// post makes one call. Of a service that ended in the middle of it nobody can tell how much it did,
// unless it only reads.
func post(ctx context.Context, client *http.Client, to string, args json.RawMessage, reads bool) (Result, error) {
	broke := func(what string, err error) error {
		var dial *net.OpError
		if reads || errors.As(err, &dial) && dial.Op == "dial" { // nothing was sent
			return fmt.Errorf("the service %s: %w", what, err)
		}
		return capabilities.Wrap(capabilities.CodeUnknownOutcome, err, "The service "+what+". Whether it did what it was asked to is not known.")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(args))
	if err != nil {
		return Result{}, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return Result{}, broke("does not answer", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, remote.MaxBytes+1))
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return Result{}, broke("broke its answer off", err)
	case len(body) > remote.MaxBytes:
		return Result{}, capabilities.Errorf(capabilities.CodeResultTooLarge, "the service's answer has more than %d bytes", remote.MaxBytes)
	case answer.StatusCode/100 != 2:
		return Result{}, capabilities.Errorf(capabilities.CodeExecutionFailed, "the service answered %s: %s", answer.Status,
			capabilities.Clip(capabilities.Printable(string(body)), 500))
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		data, err := canonical.Parse(body, canonical.Limits{MaxBytes: remote.MaxText, Foreign: true})
		if err != nil {
			return Result{}, capabilities.Wrap(capabilities.CodeExecutionFailed, err,
				"The service wrote no JSON that can be read: "+capabilities.AsError(err).PublicMessage())
		}
		return Result{Data: json.RawMessage(data)}, nil
	case (kind == "" || strings.HasPrefix(kind, "text/")) && utf8.Valid(body):
		return Result{Text: string(body)}, nil
	}
	return Result{Bytes: body, MIME: kind}, nil
}
