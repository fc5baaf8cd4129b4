package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
)

func TestRules(t *testing.T) {
	r, err := NewRules([]string{"http://Intra.Example:8080", "https://10.0.0.5"})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	r.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		asked++
		switch host {
		case "public.example":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
		case "intra.example", "rebind.example":
			return []netip.Addr{netip.MustParseAddr("10.0.0.9")}, nil
		case "mixed.example":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("127.0.0.1")}, nil
		}
		return nil, errors.New("no such host")
	}
	for _, tc := range []struct {
		host, port string
		code       capabilities.Code
	}{
		{"public.example", "443", ""}, {"PUBLIC.example.", "443", ""}, {"8.8.8.8", "80", ""},
		{"intra.example", "8080", ""}, {"INTRA.example", "8080", ""}, {"intra.example", "80", capabilities.CodeURLBlocked},
		{"10.0.0.5", "443", ""}, {"10.0.0.5", "80", capabilities.CodeURLBlocked},
		{"rebind.example", "443", capabilities.CodeURLBlocked}, {"mixed.example", "443", capabilities.CodeURLBlocked},
		{"localhost", "80", capabilities.CodeURLBlocked}, {"a.localhost.", "80", capabilities.CodeURLBlocked},
		{"::1", "80", capabilities.CodeURLBlocked}, {"nowhere.example", "80", capabilities.CodeNavigationFailed},
	} {
		asked = 0
		addrs, err := r.resolve(t.Context(), tc.host, tc.port)
		if capabilities.CodeOf(err) != tc.code || (err == nil) != (len(addrs) > 0) || asked > 1 {
			t.Errorf("%s:%s: %v, %v (asked %d times)", tc.host, tc.port, addrs, err, asked)
		}
	}
}

// A node with public addresses is no way round the rules for loopback and the
// local network: a page knows them from the request it got.
func TestRulesOwnNetworks(t *testing.T) {
	r, err := NewRules([]string{"http://8.8.4.4:8080"})
	if err != nil {
		t.Fatal(err)
	}
	var links []net.Addr
	for _, cidr := range []string{"127.0.0.1/8", "8.8.4.4/24", "2606:4700:1:2::5/64", "9.9.9.9/1"} {
		ip, network, err := net.ParseCIDR(cidr)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	unknown := errors.New("no list")
	var failing error
	r.links = func() ([]net.Addr, error) { return links, failing }
	r.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("2606:4700:1:2::77")}, nil
	}
	for host, open := range map[string]bool{
		"8.8.4.4": false, "::ffff:8.8.4.4": false, "64:ff9b::808:404": false, "8.8.4.5": false, "8.8.5.5": true,
		"2606:4700:1:2::5": false, "2606:4700:1:2:ffff::1": false, "2606:4700:1:3::5": true, "neighbour.example": false,
		"9.9.9.9": false, "9.9.9.10": true, // a link of half the internet
	} {
		if _, err := r.resolve(t.Context(), host, "80"); (err == nil) != open {
			t.Errorf("%s: %v", host, err)
		}
	}
	if _, err := r.resolve(t.Context(), "8.8.4.4", "8080"); err != nil {
		t.Errorf("the owner named it: %v", err)
	}
	failing = unknown
	if _, err := r.resolve(t.Context(), "8.8.5.5", "80"); capabilities.CodeOf(err) != capabilities.CodeURLBlocked {
		t.Errorf("without a list of its own networks: %v", err)
	}
}
