package oauth

import (
	"context"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of clients' documents.
const (
	maxDocument  = 16 << 10
	fetchTime    = 8 * time.Second
	keepDocument = 5 * time.Minute
	maxDocuments = 64
)

// documents are the Client ID Metadata Documents of clients, fetched when a person is to be asked.
type documents struct {
	hosts  []string
	now    func() time.Time
	places chan struct{} // how many are fetched at once

	mu   sync.Mutex
	kept map[string]kept
}

type kept struct {
	client Client
	until  time.Time
}

func newDocuments(hosts []string, now func() time.Time) (*documents, error) {
	d := &documents{hosts: hosts, now: now, places: make(chan struct{}, 4), kept: map[string]kept{}}
	_, err := egress.NewPublicWay(hosts, hostFlag)
	return d, err
}

// hostFlag is how the admin names a host that is not public.
const hostFlag = "--client-host"

// document is what of a client's document counts here.
type document struct {
	ID        string   `json:"client_id"`
	Name      string   `json:"client_name"`
	Redirects []string `json:"redirect_uris"`
	Method    string   `json:"token_endpoint_auth_method"`
	Secret    string   `json:"client_secret"`
}

// address reads a client ID that is an address: https, with a path, without a user, a fragment and
// dots for folders; http will do where the admin named the host.
func (d *documents) address(id string) (*url.URL, error) {
	u, ok := address.Web(id)
	switch {
	case !ok || len(id) > maxRedirect || strings.ContainsFunc(id, func(c rune) bool { return c >= 0x7f }):
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID is no https address without a user and a fragment")
	case u.Path == "" || u.Path == "/" || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/"):
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID has to be the address of a document")
	case u.Scheme != "https" && (u.Scheme != "http" || !slices.Contains(d.hosts, egress.HostOf(u))):
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "the client ID is an address that is not https")
	}
	return u, nil
}

// client reads the document at a client ID.
func (d *documents) client(ctx context.Context, id string) (*Client, error) {
	u, err := d.address(id)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	have, ok := d.kept[id]
	d.mu.Unlock()
	if ok && d.now().Before(have.until) {
		c := have.client
		return &c, nil
	}
	select {
	case d.places <- struct{}{}:
		defer func() { <-d.places }()
	default:
		return nil, capabilities.Errorf(capabilities.CodeOverloaded, "too many clients' documents are being fetched")
	}
	doc, err := d.fetch(ctx, u)
	if err != nil {
		return nil, err
	}
	if doc.ID != id {
		return nil, capabilities.Errorf(capabilities.CodeForbidden, "the client's document is of another client: %.200q", doc.ID)
	}
	if doc.Secret != "" || doc.Method != "" && doc.Method != "none" {
		return nil, capabilities.Errorf(capabilities.CodeNotSupported, "the client wants to prove itself by %.64q, and this gateway takes none",
			doc.Method)
	}
	if err := checkRedirects(doc.Redirects); err != nil {
		return nil, capabilities.Errorf(capabilities.CodeForbidden, "the client's document: %s", capabilities.AsError(err).PublicMessage())
	}
	c := Client{ID: id, Name: cleanName(doc.Name), Host: u.Host, Redirects: doc.Redirects}
	d.mu.Lock()
	defer d.mu.Unlock()
	for other, k := range d.kept {
		if !d.now().Before(k.until) || len(d.kept) >= maxDocuments {
			delete(d.kept, other)
		}
	}
	d.kept[id] = kept{c, d.now().Add(keepDocument)}
	return &c, nil
}

// fetch makes one request by the rules of the egress; a redirect is not followed: it would be
// somebody else's word for who the client is.
func (d *documents) fetch(ctx context.Context, u *url.URL) (*document, error) {
	way, err := egress.NewPublicWay(d.hosts, hostFlag)
	if err != nil {
		return nil, err
	}
	transport := way.Transport(egress.TransportOptions{MaxBytes: maxDocument, HeaderTimeout: fetchTime, Once: true})
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, capabilities.AsError(err)
	}
	r.Header.Set("Accept", "application/json")
	resp, err := transport.RoundTrip(r)
	if err != nil {
		if refused := way.Refused(); len(refused) > 0 {
			return nil, capabilities.Errorf(capabilities.CodeURLBlocked, "the client's document may not be fetched: %s: %s", refused[0].Target,
				refused[0].Why)
		}
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the client's document at %.200s cannot be fetched", u.Host)
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed,
			"at %.200s there is no document of a client: status %d, type %.64q", u.Host, resp.StatusCode, kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	var doc document
	if err != nil || len(body) > maxDocument || json.Unmarshal(body, &doc) != nil {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the client's document is no JSON of at most 16 KiB")
	}
	return &doc, nil
}
