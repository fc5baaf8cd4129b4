package front

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// maxHops is how many addresses of a forwarded request are looked at.
const maxHops = 32

// nobodyKnows is the address of a request of which it cannot be told where it comes
// from: it has no budget of its own, and counts as coming from everywhere.
const nobodyKnows = "unknown"

type proxiedKey struct{}

// forwarded are the headers in which proxies say who called them. They are taken
// from a trusted proxy, on the way in, and from nobody else; nothing behind sees
// them.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Scheme",
	"X-Forwarded-Server",
	"X-Forwarded-Prefix", "X-Original-Url", "X-Rewrite-Url", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip"}

// resolvePeer finds out where a request comes from and writes it into its RemoteAddr.
// Behind a trusted proxy that is the last address which is no trusted proxy's own.
func (s *Server) resolvePeer(r *http.Request) (*http.Request, error) {
	hops, proto := r.Header["X-Forwarded-For"], r.Header["X-Forwarded-Proto"]
	for _, name := range forwarded {
		delete(r.Header, name)
	}
	if len(s.opts.Proxies) == 0 {
		return r, nil
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r, nil
	}
	at := canonical(peer.Addr())
	if !s.trusted(at) {
		if r.TLS == nil && !at.IsLoopback() {
			return r, capabilities.Errorf(capabilities.CodeForbidden,
				"this gateway takes requests by its TLS proxy, and tokens must not cross a network unencrypted").
				WithAction(capabilities.Action{Key: capabilities.ActionTrustProxy, Name: at.String()},
					"Call the proxy's address; if this is the proxy, name it.")
		}
		return r, nil
	}
	if len(hops) == 0 && at.IsLoopback() && len(proto) == 0 {
		// A program of this machine, or a proxy that does not say whom it serves.
		r.RemoteAddr = nobodyKnows
		return r, nil
	}
	whom, passed := s.client(hops)
	r = r.WithContext(context.WithValue(r.Context(), proxiedKey{}, passed))
	r.RemoteAddr = whom
	if len(proto) > 1 || len(proto) == 1 && !strings.EqualFold(strings.TrimSpace(proto[0]), "https") {
		return r, capabilities.Errorf(capabilities.CodeForbidden,
			"the proxy took this request without TLS, and tokens must not cross a network unencrypted").
			WithHint("Have the proxy redirect http to https, and set X-Forwarded-Proto itself.")
	}
	return r, nil
}

// client returns the address of whom the proxy serves, in the form of RemoteAddr, and
// whether that was found behind further proxies.
func (s *Server) client(headers []string) (address string, passed bool) {
	hops := strings.Split(strings.Join(headers, ","), ",")
	if len(hops) > maxHops {
		hops = hops[len(hops)-maxHops:]
	}
	for _, hop := range slices.Backward(hops) {
		hop = strings.TrimSpace(hop)
		addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
		if err != nil {
			withPort, err := netip.ParseAddrPort(hop)
			if err != nil {
				return nobodyKnows, passed
			}
			addr = withPort.Addr()
		}
		if addr = canonical(addr); !s.trusted(addr) {
			return netip.AddrPortFrom(addr, 0).String(), passed
		}
		passed = true
	}
	return nobodyKnows, passed
}

// Told reports whether it is sure where a request comes from. It is not where a proxy
// names another trusted one as its client: a person at that proxy's own machine, or an
// agent with their mouse, looks the same and may have written the rest.
func Told(r *http.Request) bool {
	passed, proxied := r.Context().Value(proxiedKey{}).(bool)
	return !(proxied && passed)
}

func (s *Server) trusted(addr netip.Addr) bool {
	return slices.ContainsFunc(s.opts.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func canonical(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// secure reports whether a request came over TLS, here or at the trusted proxy.
func secure(r *http.Request) bool { return r.TLS != nil || r.Context().Value(proxiedKey{}) != nil }

// Origin is the web origin of our own pages for the browser that sent r.
func Origin(r *http.Request) string {
	if secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// ParseProxies reads the addresses of trusted proxies: addresses and networks such
// as "10.0.0.2" and "10.1.0.0/16". A network wider than /8 (IPv6: /32) is refused,
// for that is everybody.
func ParseProxies(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			addr, err := netip.ParseAddr(text)
			if err != nil || addr.Zone() != "" {
				return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%.100q is no address and no network of a proxy", text).
					WithHint("Give it such as 10.0.0.2 or 10.1.0.0/16.")
			}
			addr = addr.Unmap()
			p = netip.PrefixFrom(addr, addr.BitLen())
		}
		least := 8
		if p.Addr().Is6() {
			least = 32
		}
		if p.Addr().Is4In6() || p.Bits() < least {
			return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s names more than proxies", p).
				WithHint("Name the proxy's own address, such as 10.0.0.2.")
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
