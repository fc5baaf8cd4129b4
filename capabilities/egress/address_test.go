package egress

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestNotPublic(t *testing.T) {
	for addr, want := range map[string]string{
		"8.8.8.8": "", "93.184.216.34": "", "2606:4700::1111": "", "64:ff9b::808:808": "",
		"127.0.0.1": "loopback", "127.9.9.9": "loopback", "::1": "loopback", "::ffff:127.0.0.1": "loopback",
		"10.1.2.3": "private", "192.168.0.1": "private", "172.16.0.1": "private", "100.64.0.1": "private", "fd00::1": "private", "fec0::1": "private",
		"169.254.1.1": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"169.254.169.254": "a metadata service", "fd00:ec2::254": "a metadata service", "168.63.129.16": "a metadata service",
		"100.100.100.200": "a metadata service", "fd20:ce::254": "a metadata service",
		"0.0.0.0": "reserved", "::": "reserved", "255.255.255.255": "reserved", "224.0.0.1": "multicast", "ff02::1": "multicast",
		"64:ff9b::7f00:1": "loopback", "64:ff9b::a9fe:a9fe": "a metadata service", "2002:7f00:1::": "loopback", "2002:a00:1::": "private", "::7f00:1": "loopback",
		"2001:db8::1": "reserved", "192.0.2.1": "reserved", "192.88.99.1": "reserved", "3fff::1": "reserved",
		"::ffff:0:10.0.0.1": "reserved", "4000::1": "reserved",
	} {
		if got := notPublic(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s is %q, want %q", addr, got, want)
		}
	}
}

// No IPv4 address that is not public becomes public by being wrapped into IPv6.
func TestNotPublicWrapped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4"))
		v4 := netip.AddrFrom4(b)
		want := notPublic(v4) == ""
		wrap := func(prefix ...byte) netip.Addr {
			var a [16]byte
			copy(a[:], prefix)
			copy(a[12:], b[:])
			return netip.AddrFrom16(a)
		}
		var six [16]byte
		six[0], six[1] = 0x20, 0x02
		copy(six[2:], b[:])
		for _, a := range []netip.Addr{wrap(0, 0x64, 0xff, 0x9b), wrap(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), netip.AddrFrom16(six)} {
			if got := notPublic(a) == ""; got && !want {
				t.Fatalf("%s is public, %s is not", a, v4)
			}
		}
	})
}
