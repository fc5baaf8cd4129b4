package browser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/browser/devtools"
)

// In a person's own Chrome their session with the gateway's console lies, and an agent
// there would answer its own questions. So nothing of the gateway's is loaded in an
// attached lane: not by any tab, frame or worker of it, and whatever the address is called.
// Where the gateway has a port of its own, that port is what is refused, on every host:
// a name says nothing of where it leads. Otherwise it is every name that leads to one of
// the gateway's addresses, as this machine resolves it. Chrome asks about no WebSocket; the
// gateway takes none.

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

// AvoidGateway takes what the gateway says of its own pages, beside Options.Gateway. It
// leaves out what is no origin.
func (h *Handler) AvoidGateway(origins []string) {
	at, _ := readGateway(h.o.Gateway)
	for _, origin := range origins {
		if more, err := readGateway([]string{origin}); err == nil {
			at = append(at, more...)
		}
	}
	if was := h.gateway.Swap(&at); was != nil && slices.Equal(*was, at) {
		return
	}
	h.mu.Lock()
	lanes := make([]*lane, 0, len(h.lanes))
	for _, l := range h.lanes {
		lanes = append(lanes, l)
	}
	h.mu.Unlock()
	for _, l := range lanes {
		l.mu.Lock()
		c := l.chrome
		l.mu.Unlock()
		if c != nil && c.Attached {
			for _, s := range c.Conn.Sessions() {
				c.guardGateway(h.life, s)
			}
		}
	}
}

var _ capabilities.GatewayAvoider = (*Handler)(nil)

// ofTheWeb reports whether a port is one that every site may have.
func ofTheWeb(port int) bool { return port == 80 || port == 443 }

// is reports whether a URL, as Chrome tells it, leads to the gateway, as far as that can be
// told without asking anybody.
func (at gatewayAt) is(raw string) bool {
	to := address.Classify(raw)
	for _, g := range at {
		if to.Port != 0 && to.Port == g.Port && (!ofTheWeb(g.Port) || to.Host == g.Host) {
			return true
		}
	}
	return false
}

// leads reports whether a URL leads to the gateway, by a name that this machine resolves to
// one of its addresses, too. A name that cannot be resolved in a moment does.
func (at gatewayAt) leads(ctx context.Context, names *resolved, raw string) bool {
	if at.is(raw) {
		return true
	}
	to := address.Classify(raw)
	for _, g := range at {
		if to.Port == 0 || to.Port != g.Port { // then it is one of the web's: see is
			continue
		}
		there, err := names.of(ctx, to.Host)
		if err != nil {
			return true
		}
		own, _ := names.of(ctx, g.Host) // where it does not resolve here, Chrome reaches nothing by it
		if slices.ContainsFunc(there, func(a netip.Addr) bool { return slices.Contains(own, a) }) {
			return true
		}
	}
	return false
}

// resolved remembers for a moment what names lead to. The zero value is ready.
type resolved struct {
	mu    sync.Mutex
	names map[string]resolution
}

type resolution struct {
	addrs []netip.Addr
	err   error
	until time.Time
}

const (
	maxResolved  = 1000
	resolvedFor  = 10 * time.Second
	resolvedWait = 2 * time.Second
)

// of returns the addresses of a host; none where nobody has it.
func (r *resolved) of(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	r.mu.Lock()
	one, known := r.names[host]
	r.mu.Unlock()
	if known && time.Now().Before(one.until) {
		return one.addrs, one.err
	}
	ctx, cancel := context.WithTimeout(ctx, resolvedWait)
	defer cancel()
	one.addrs, one.err = net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range one.addrs {
		one.addrs[i] = one.addrs[i].Unmap()
	}
	var failed *net.DNSError
	if one.err != nil && errors.As(one.err, &failed) && failed.IsNotFound {
		one.addrs, one.err = nil, nil
	}
	one.until = time.Now().Add(resolvedFor)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names == nil || len(r.names) >= maxResolved {
		r.names = map[string]resolution{}
	}
	r.names[host] = one
	return one.addrs, one.err
}

// guardGateway has Chrome ask about every request of the session that may lead to the
// gateway, before it is made; heedGateway answers.
func (c *chrome) guardGateway(ctx context.Context, s *devtools.Session) []*devtools.Pending {
	if !c.Attached {
		return nil
	}
	var patterns []*fetch.RequestPattern
	seen := map[string]bool{}
	for _, g := range *c.h.gateway.Load() {
		pattern := "*://*:" + strconv.Itoa(g.Port) + "/*"
		if ofTheWeb(g.Port) { // Chrome leaves the port out where it is the scheme's
			pattern = map[int]string{80: "http", 443: "https"}[g.Port] + "://*/*"
		}
		if !seen[pattern] {
			seen[pattern] = true
			patterns = append(patterns, &fetch.RequestPattern{URLPattern: pattern})
		}
	}
	if len(patterns) == 0 {
		return nil
	}
	return []*devtools.Pending{devtools.Start(ctx, s, fetch.Enable, fetch.EnableParams{Patterns: patterns}).Pending}
}

// heedGateway refuses a request that Chrome asks about if it leads to the gateway, and lets
// every other go. It runs on the reading goroutine.
func (c *chrome) heedGateway(s *devtools.Session, params []byte) {
	var e struct {
		RequestID fetch.RequestID `json:"requestId"`
		Request   struct {
			URL string `json:"url"`
		} `json:"request"`
	}
	if !decodeEvent(params, &e) {
		return
	}
	c.h.wg.Go(func() {
		if c.h.gateway.Load().leads(c.h.life, &c.h.names, e.Request.URL) {
			devtools.Start(c.h.life, s, fetch.FailRequest,
				fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonBlockedByClient})
			return
		}
		devtools.Start(c.h.life, s, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
	})
}

// blocked are the addresses that are the gateway's whatever a name leads to, as URLPattern
// writes them (urlpattern.spec.whatwg.org): a colon of an IPv6 address is no group of it.
func (at gatewayAt) blocked() (all []*network.BlockPattern) {
	for _, g := range at {
		host := "*:" + strconv.Itoa(g.Port)
		if ofTheWeb(g.Port) { // the scheme's own port is left out
			host = g.Host
			if strings.Contains(host, ":") {
				host = "[" + strings.ReplaceAll(host, ":", `\:`) + "]"
			}
		}
		all = append(all, &network.BlockPattern{URLPattern: "*://" + host + "/*", Block: true})
	}
	return all
}

// guardShared has a person's Chrome tell of its shared workers, each before its first
// statement: it does not say whose page one is of, so the person's wait for a moment, too.
func (c *chrome) guardShared(ctx context.Context) error {
	_, err := devtools.Do(ctx, c.Root, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: ptr(true), Filter: target.Filter{{Type: "shared_worker"}, {Exclude: true}},
	})
	return err
}

// meetShared takes in the session of such a worker. A stop does not hold it: it may be the
// person's. It runs on the reading goroutine.
func (c *chrome) meetShared(id string) {
	var s *devtools.Session
	s = c.Conn.OpenTheirs(id, func(method string, params []byte) {
		if method == "Fetch.requestPaused" {
			c.heedGateway(s, params)
		}
	})
	c.h.wg.Go(func() {
		// Chrome guards a worker that it makes just now only sometimes by what it asks about, so
		// what is the gateway's by its address alone is blocked in the worker itself.
		blocked := c.h.gateway.Load().blocked()
		steps := append(c.guardGateway(c.h.life, s),
			devtools.Start(c.h.life, s, network.Enable, network.EnableParams{}).Pending,
			devtools.Start(c.h.life, s, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: blocked}).Pending)
		for _, p := range steps {
			if _, err := p.Wait(c.h.life); err != nil && c.h.life.Err() == nil {
				c.h.log.Warn("browser.gateway.unguarded", "worker", "shared", "err", err) // or it is gone
			}
		}
		devtools.Start(c.h.life, s, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	})
}

// forbids returns why a document of that address is not to be read, nil if it may be.
func (t *laneTab) forbids(shown string) error {
	switch {
	case isFileDocument(shown):
		return errFileShown
	case t.chrome.Attached && t.chrome.h.gateway.Load().is(shown):
		return errGateway
	}
	return nil
}

var errGateway = capabilities.Errorf(capabilities.CodeURLBlocked,
	"The gateway's own pages are not opened in a person's Chrome that a call is attached to.").
	WithHint("Leave them to the person.")
