package provider

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/handrail-dev/handrail/agent/provider/openapi"
	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of what is asked of an HTTP API.
const (
	documentTime = 60 * time.Second
	headerTime   = 10 * time.Minute // calls have deadlines of their own
	maxAnswer    = 20 << 20         // bytes; package openapi has a bound for each kind
	maxRedirects = 5
)

// api is an HTTP API as a provider. Nothing of it runs here: each call is one request, which the
// approved manifest describes whole. The document is read when somebody asks what it offers, and
// by no call.
type api struct {
	record *tools.Provider
	way    *egress.Way
	client *http.Client
	keys   *credentials
}

func newAPI(p *tools.Provider, way *egress.Way, secrets *credentials) *api {
	to := way.Transport(egress.TransportOptions{MaxBytes: maxAnswer, HeaderTimeout: headerTime})
	return &api{record: p, way: way, keys: secrets, client: &http.Client{Transport: to, CheckRedirect: sameOrigin}}
}

// of is the client of one call's request. A redirect of a read that leaves its origin is followed
// where the host was named or a person permits it to this call, without what the request carried.
func (a *api) of(inv *capabilities.Invocation, first *http.Request) *http.Client {
	on := newOnward(a.way, inv.Reach, first.URL, maxAnswer, headerTime)
	return &http.Client{
		Transport: byOrigin{first.URL, a.client.Transport, on.by},
		CheckRedirect: func(next *http.Request, before []*http.Request) error {
			err := sameOrigin(next, before)
			if left := slices.ContainsFunc(before, on.away); err == nil && left || err != nil && (!reads(first) || !on.follows(next, len(before))) {
				return http.ErrUseLastResponse // whoever leads back has no say in what is asked with our credentials
			}
			if err != nil {
				next.Header = http.Header{"Accept": {"*/*"}, "User-Agent": {"handrail"}}
			}
			return nil
		},
	}
}

// sameOrigin follows a redirect of what only reads, inside its origin. Where another leads is told
// to the caller: what a request carries is for the place that was approved.
func sameOrigin(next *http.Request, before []*http.Request) error {
	first := before[0]
	if !reads(first) || !egress.SameOrigin(next.URL, first.URL) || len(before) > maxRedirects {
		return http.ErrUseLastResponse
	}
	next.Header.Del("Referer") // a key may stand in the address
	return nil
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// manifest reads the document anew, where it is at a URL.
func (a *api) manifest(ctx context.Context) (*tools.ToolManifest, error) {
	if a.record.URL == "" {
		return openapi.Manifest(a.record, a.record.Manifest, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.record.URL, nil)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidRequest, err, "The address of the document cannot be read.")
	}
	r.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	r.Header.Set("User-Agent", "handrail")
	resp, err := a.client.Do(r)
	if err != nil {
		return nil, openapi.Failed(err, egress.Unreached(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, capabilities.Errorf(capabilities.CodeExecutionFailed, "the address of the document answers %d", resp.StatusCode).
			WithHint("Give the address of the document itself; a redirect to another host is not followed.")
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, openapi.MaxDocument+1))
	if err != nil {
		return nil, openapi.Failed(err, egress.Unreached(err))
	}
	return openapi.Manifest(a.record, data, resp.Request.URL)
}

func (a *api) restart(change) {} // each request asks for its credentials

func (a *api) health() *capabilities.Error { return nil }

func (a *api) refused() []egress.Refused { return a.way.Refused() }

func (a *api) moved() map[string]uint64 { return nil } // each call tells of its own

func (a *api) changes() map[string]int { return nil }

func (a *api) wrote() map[string]int { return nil }

func (a *api) tried() map[attempt]int { return nil }

func (a *api) denied() map[string]int { return nil }

func (a *api) hold(on bool) { a.way.Hold(on) }

func (a *api) close() { a.client.CloseIdleConnections() }

func (a *api) call(ctx context.Context, c call) (capabilities.Output, error) {
	if c.request == nil {
		return capabilities.Output{}, capabilities.Errorf(capabilities.CodeUnknownTool, "the document has no %.200q", c.upstream)
	}
	ctx = egress.WithTold(ctx, c.reached)
	r, err := openapi.NewRequest(ctx, c.request, c.args, a.keys.secret)
	if err != nil {
		return capabilities.Output{}, err
	}
	if c.inv.Trace != "" && r.Header.Get(headerTrace) == "" {
		r.Header.Set(headerTrace, c.inv.Trace)
	}
	resp, err := a.of(&c.inv, r).Do(r)
	if err == nil {
		defer resp.Body.Close()
		out, failed := openapi.Result(resp, c.request, a.keys.withheld())
		if failed == nil || ctx.Err() == nil && !errors.Is(failed, openapi.ErrBroken) {
			return out, failed
		}
		err = failed
	}
	if ctx.Err() != nil {
		return capabilities.Output{Effect: capabilities.EffectUnverifiable}, context.Cause(ctx)
	}
	var here *capabilities.Error
	if errors.As(err, &here) && !errors.Is(err, openapi.ErrBroken) { // it is one of before the request left
		return capabilities.Output{}, openapi.Failed(err, egress.Unreached(err))
	}
	failed := capabilities.AsError(openapi.Failed(err, egress.Unreached(err)))
	return capabilities.Output{Effect: capabilities.EffectUnverifiable}, c.unanswered(failed)
}

var _ backend = (*api)(nil)
