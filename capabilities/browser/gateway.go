package browser

import (
	"context"
	"fmt"
	"strconv"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

// In a person's own Chrome their session with the gateway's console lies, and an agent
// there would answer its own questions. So nothing of the gateway's is loaded in an
// attached lane: not by any tab or frame of it, and whatever the address is called.
// Where the gateway has a port of its own, that port is what is refused, on every host:
// a name says nothing of where it leads. Otherwise it is the gateway's host.

// gatewayAt are the origins of the gateway.
type gatewayAt []address.Destination

func readGateway(origins []string) (at gatewayAt, err error) {
	for _, origin := range origins {
		to := address.Classify(origin)
		if to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			return nil, fmt.Errorf("browser: gateway %q: want scheme://host or scheme://host:port", origin)
		}
		at = append(at, to)
	}
	return at, nil
}

// ofTheWeb reports whether a port is one that every site may have.
func ofTheWeb(port int) bool { return port == 80 || port == 443 }

// is reports whether a URL, as Chrome tells it, leads to the gateway.
func (at gatewayAt) is(raw string) bool {
	to := address.Classify(raw)
	for _, g := range at {
		if to.Port != 0 && to.Port == g.Port && (!ofTheWeb(g.Port) || to.Host == g.Host) {
			return true
		}
	}
	return false
}

// guardGateway has Chrome ask about every request of the session to the gateway, before
// it is made; serveNothing refuses it.
func (t *tab) guardGateway(ctx context.Context, s *session) []*pending {
	if !t.chrome.attached {
		return nil
	}
	var patterns []*fetch.RequestPattern
	for _, g := range t.chrome.h.gateway {
		host := "*:" + strconv.Itoa(g.Port)
		if ofTheWeb(g.Port) {
			host = g.Host
		}
		patterns = append(patterns, &fetch.RequestPattern{URLPattern: "*://" + host + "/*"})
	}
	if len(patterns) == 0 {
		return nil
	}
	return []*pending{start(ctx, s, fetch.Enable, fetch.EnableParams{Patterns: patterns}).pending}
}

// serveNothing refuses a request that Chrome asks about.
func (t *tab) serveNothing(s *session, params []byte) {
	var e struct {
		RequestID fetch.RequestID `json:"requestId"`
	}
	if decodeEvent(params, &e) {
		t.chrome.h.wg.Go(func() {
			start(t.life, s, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
		})
	}
}

// forbids gives why a document of that address is not to be read, nil if it may be.
func (t *tab) forbids(shown string) error {
	switch {
	case isFileDocument(shown):
		return errFileShown
	case t.chrome.attached && t.chrome.h.gateway.is(shown):
		return errGateway
	}
	return nil
}

var errGateway = capabilities.Errorf(capabilities.CodeURLBlocked, "The gateway's own pages are not opened in a person's Chrome that a call is attached to.").
	WithHint("Leave them to the person.")
