package provider

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/capabilities/egress"
)

// onward goes where an answer leads one call of an HTTP API, or of a server at a URL: to hosts that
// were named, and to those that a person permits it. No connection outlives its answer, and none is
// another call's.
type onward struct {
	from *url.URL // what the call was approved for
	way  *egress.Way
	by   *egress.Transport
}

func newOnward(way *egress.Way, ask egress.Ask, from *url.URL, most int64, header time.Duration) *onward {
	w := way.Onward(ask)
	return &onward{from, w, w.Transport(egress.TransportOptions{MaxBytes: most, HeaderTimeout: header, Once: true})}
}

// away reports whether a request goes elsewhere than what was approved.
func (o *onward) away(r *http.Request) bool { return !egress.SameOrigin(o.from, r.URL) }

// follows reports whether a redirect elsewhere is followed, the one after so many requests. Where
// nobody named the host a person is asked, and has four fifths of the time that the call has left:
// without their answer it still tells where it was led.
func (o *onward) follows(next *http.Request, requests int) bool {
	plain := next.URL.Scheme == "http" && o.from.Scheme == "http"
	if next.URL.Scheme != "https" && !plain || next.URL.User != nil || requests > maxRedirects {
		return false
	}
	ctx := next.Context()
	if end, bounded := ctx.Deadline(); bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*4/5)
		defer cancel()
	}
	return o.way.Follows(ctx, egress.HostOf(next.URL))
}

// byOrigin has the requests of one origin carried by its own transport, and all others by another.
type byOrigin struct {
	at   *url.URL
	home http.RoundTripper
	away http.RoundTripper
}

func (b byOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	if egress.SameOrigin(b.at, r.URL) {
		return b.home.RoundTrip(r)
	}
	return b.away.RoundTrip(r)
}

// heard401 notes that a server answered that it wants another credential than it got, and of a call
// that its answer is too long. Where the server's redirect leads a call elsewhere, it goes there by
// the call's own way.
type heard401 struct {
	home http.RoundTripper
	at   *url.URL
	l    *live
}

func (h heard401) RoundTrip(r *http.Request) (*http.Response, error) {
	one, _ := r.Context().Value(askerKey{}).(*asker)
	by := h.home
	away := !egress.SameOrigin(h.at, r.URL)
	if away {
		if one == nil || one.on == nil {
			return nil, errElsewhere
		}
		by = one.on.by
	}
	if one != nil && one.trace != "" && !away {
		r = r.Clone(r.Context())
		r.Header.Set(headerTrace, one.trace)
	}
	resp, err := by.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if resp.StatusCode == http.StatusUnauthorized && !away {
		h.l.wants.Store(true)
	}
	if r.Method == http.MethodPost { // a server need not know the others
		h.l.refused.Store(resp.StatusCode >= http.StatusBadRequest)
	}
	if one != nil {
		resp.Body = &heard{ReadCloser: resp.Body, one: one}
	}
	return resp, nil
}

var errElsewhere = errors.New("the server redirects to another place")

// onlyTo is a client that goes to one origin. A redirect of a call's request leads elsewhere only
// where the record names the host, or a person permits it to this call. The request stays the same.
func onlyTo(at *url.URL, by http.RoundTripper) *http.Client {
	return &http.Client{
		Transport: by,
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects { // each keeps all before it
				return errors.New("the server redirects too often")
			}
			away := func(r *http.Request) bool { return !egress.SameOrigin(at, r.URL) }
			if !away(r) && !slices.ContainsFunc(via, away) {
				return nil
			}
			one, _ := r.Context().Value(askerKey{}).(*asker)
			if !away(r) || one == nil || one.on == nil || r.Method != via[0].Method || !one.on.follows(r, len(via)) {
				if one != nil && one.on != nil && away(r) {
					to := egress.HostOf(r.URL)
					one.led.Store(&to)
				}
				return errElsewhere
			}
			return nil
		},
	}
}
