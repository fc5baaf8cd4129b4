package address

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		raw     string
		address Class
		host    string
		origin  string
		port    int
	}{
		{"https://example.com/a?b#c", Name, "example.com", "https://example.com", 443},
		{"http://example.com:8080", Name, "example.com", "http://example.com:8080", 8080},
		{"HTTPS://EXAMPLE.com.:443/", Name, "example.com", "https://example.com", 443},
		{"http://example.com:/", Name, "example.com", "http://example.com", 80},
		{"http://example.com:00080/", Name, "example.com", "http://example.com", 80},
		{"ws://example.com", Name, "example.com", "ws://example.com", 80},
		{"http://8.8.8.8/", Public, "8.8.8.8", "http://8.8.8.8", 80},
		{"https://[2606:4700::1111]:8443/", Public, "2606:4700::1111", "https://[2606:4700::1111]:8443", 8443},

		// IPv4 in every spelling a browser takes.
		{"http://127.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0.0.1./", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://2130706433/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://0x7f000001/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://0X7F.0.0.0x1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://017700000001/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://0177.0.0.01/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0x.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://0/", Loopback, "0.0.0.0", "http://0.0.0.0", 80},
		{"http://0.0.0.0/", Loopback, "0.0.0.0", "http://0.0.0.0", 80},
		{"http://%31%32%37.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://１２７.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127。0。0。1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0.0\u00ad.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://3232235777/", Private, "192.168.1.1", "http://192.168.1.1", 80},
		{"http://0xa9fea9fe/", Metadata, "169.254.169.254", "http://169.254.169.254", 80},

		// Spellings of the URL around the host.
		{"http:127.0.0.1", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http:/127.0.0.1", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{`http:\\127.0.0.1\x`, Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http:////127.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{" \thttp://127.0.0.1/ ", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"ht\ntp://127.0\t.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://example.com@127.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://example.com:80@127.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://a@b@127.0.0.1/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://user:pass@example.com/", Name, "example.com", "http://example.com", 80},
		{`http://127.0.0.1\@example.com/`, Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0.0.1#@example.com/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://127.0.0.1?@example.com/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},

		// IPv6, and IPv4 inside it.
		{"http://[::1]/", Loopback, "::1", "http://[::1]", 80},
		{"http://[::]/", Loopback, "::", "http://[::]", 80},
		{"http://[0:0:0:0:0:0:0:1]:99/", Loopback, "::1", "http://[::1]:99", 99},
		{"http://[::ffff:127.0.0.1]/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://[::ffff:7f00:1]/", Loopback, "127.0.0.1", "http://127.0.0.1", 80},
		{"http://[::127.0.0.1]/", Loopback, "::7f00:1", "http://[::7f00:1]", 80},
		{"http://[64:ff9b::127.0.0.1]/", Loopback, "64:ff9b::7f00:1", "http://[64:ff9b::7f00:1]", 80},
		{"http://[64:ff9b::a9fe:a9fe]/", Metadata, "64:ff9b::a9fe:a9fe", "http://[64:ff9b::a9fe:a9fe]", 80},
		{"http://[64:ff9b::8.8.8.8]/", Public, "64:ff9b::808:808", "http://[64:ff9b::808:808]", 80},
		{"http://[64:ff9b:1::1]/", Private, "64:ff9b:1::1", "http://[64:ff9b:1::1]", 80},
		{"http://[2002:0a00:0001::]/", Private, "2002:a00:1::", "http://[2002:a00:1::]", 80},
		{"http://[2001:0:1::]/", Private, "2001:0:1::", "http://[2001:0:1::]", 80},
		{"http://[fe80::1]/", LinkLocal, "fe80::1", "http://[fe80::1]", 80},
		{"http://[fd00::1]/", Private, "fd00::1", "http://[fd00::1]", 80},
		{"http://[fec0::1]/", Private, "fec0::1", "http://[fec0::1]", 80},
		{"http://[ff02::1]/", Private, "ff02::1", "http://[ff02::1]", 80},
		{"http://[2001:db8::1]/", Private, "2001:db8::1", "http://[2001:db8::1]", 80},
		{"http://[fd00:ec2::254]/", Metadata, "fd00:ec2::254", "http://[fd00:ec2::254]", 80},

		// Networks.
		{"http://10.1.2.3/", Private, "10.1.2.3", "http://10.1.2.3", 80},
		{"http://172.16.0.1/", Private, "172.16.0.1", "http://172.16.0.1", 80},
		{"http://172.32.0.1/", Public, "172.32.0.1", "http://172.32.0.1", 80},
		{"http://100.64.0.1/", Private, "100.64.0.1", "http://100.64.0.1", 80},
		{"http://198.18.0.1/", Private, "198.18.0.1", "http://198.18.0.1", 80},
		{"http://224.0.0.1/", Private, "224.0.0.1", "http://224.0.0.1", 80},
		{"http://255.255.255.255/", Private, "255.255.255.255", "http://255.255.255.255", 80},
		{"http://169.254.0.1/", LinkLocal, "169.254.0.1", "http://169.254.0.1", 80},
		{"http://169.254.169.254/", Metadata, "169.254.169.254", "http://169.254.169.254", 80},
		{"http://169.254.170.2/", Metadata, "169.254.170.2", "http://169.254.170.2", 80},
		{"http://100.100.100.200/", Metadata, "100.100.100.200", "http://100.100.100.200", 80},
		{"http://168.63.129.16/", Metadata, "168.63.129.16", "http://168.63.129.16", 80},

		// Names.
		{"http://localhost/", Loopback, "localhost", "http://localhost", 80},
		{"http://LocalHost.:3000/", Loopback, "localhost", "http://localhost:3000", 3000},
		{"http://app.localhost/", Loopback, "app.localhost", "http://app.localhost", 80},
		{"http://notlocalhost.com/", Name, "notlocalhost.com", "http://notlocalhost.com", 80},
		{"http://router/", Private, "router", "http://router", 80},
		{"http://nas.local/", Private, "nas.local", "http://nas.local", 80},
		{"http://db.prod.internal/", Private, "db.prod.internal", "http://db.prod.internal", 80},
		{"http://x.home.arpa./", Private, "x.home.arpa", "http://x.home.arpa", 80},
		{"http://metadata.google.internal/", Metadata, "metadata.google.internal", "http://metadata.google.internal", 80},
		{"http://bücher.example/", Name, "xn--bcher-kva.example", "http://xn--bcher-kva.example", 80},
		{"http://B%C3%BCcher.example/", Name, "xn--bcher-kva.example", "http://xn--bcher-kva.example", 80},
		{"http://faß.example/", Name, "xn--fa-hia.example", "http://xn--fa-hia.example", 80},
		{"http://ｌｏｃａｌｈｏｓｔ/", Loopback, "localhost", "http://localhost", 80},
		{"http://a_b.example/", Name, "a_b.example", "http://a_b.example", 80},
		{"http://127.0.0.1.example/", Name, "127.0.0.1.example", "http://127.0.0.1.example", 80},

		{"about:blank", None, "", "null", 0},
		{"ABOUT:BLANK#x", None, "", "null", 0},
		{"data:text/html,hello", None, "", "null", 0},
		{"data:," + strings.Repeat("x", maxURL+1), None, "", "null", 0},

		// These addresses cannot be judged.
		{"", Other, "", "null", 0},
		{"example.com", Other, "", "null", 0},
		{"//example.com", Other, "", "null", 0},
		{"http://", Other, "", "null", 0},
		{"http:///", Other, "", "null", 0},
		{"http://:80/", Other, "", "null", 0},
		{"http://a:b/", Other, "", "null", 0},
		{"http://a:65536/", Other, "", "null", 0},
		{"http://a:+80/", Other, "", "null", 0},
		{"http://a:80:80/", Other, "", "null", 0},
		{"http://1.2.3.4.5/", Other, "", "null", 0},
		{"http://256.1.1.1/", Other, "", "null", 0},
		{"http://4294967296/", Other, "", "null", 0},
		{"http://1.2.3.09/", Other, "", "null", 0},
		{"http://example.0x1/", Other, "", "null", 0},
		{"http://99999999999999999999999/", Other, "", "null", 0},
		{"http://0x1ffffffffffffffffffff/", Other, "", "null", 0},
		{"http://0xffffffffffffffffffffffff./", Other, "", "null", 0},
		{"http://[::1/", Other, "", "null", 0},
		{"http://[fe80::1%25eth0]/", Other, "", "null", 0},
		{"http://[127.0.0.1]/", Other, "", "null", 0},
		{"http://[::1]x/", Other, "", "null", 0},
		{"http://a b/", Other, "", "null", 0},
		{"http://a%00b/", Other, "", "null", 0},
		{"http://a%2fb/", Other, "", "null", 0},
		{"http://a%/", Other, "", "null", 0},
		{"http://a..b/", Other, "", "null", 0},
		{"http://127.0.0.1../", Other, "", "null", 0},
		{"http://xn--a/", Other, "", "null", 0},
		{"http://" + strings.Repeat("a", 64) + ".example/", Other, "", "null", 0},
		{"http://" + strings.Repeat("a.", 200) + "example/", Other, "", "null", 0},
		{"http://x/" + strings.Repeat("a", maxURL), Other, "", "null", 0},
		{"file:///etc/passwd", Other, "", "null", 0},
		{"file://host/share", Other, "", "null", 0},
		{"chrome://settings", Other, "", "null", 0},
		{"about:settings", Other, "", "null", 0},
		{"about:blank/../settings", Other, "", "null", 0},
		{"javascript:alert(1)", Other, "", "null", 0},
		{"blob:http://127.0.0.1/x", Other, "", "null", 0},
		{"view-source:https://example.com", Other, "", "null", 0},
		{"mailto:a@example.com", Other, "", "null", 0},
		{"1http://example.com", Other, "", "null", 0},
	} {
		got := Classify(c.raw)
		shown := c.raw[:min(len(c.raw), 60)]
		if got.Address != c.address || got.Host != c.host || got.Origin != c.origin || got.Port != c.port {
			t.Errorf("%q: got %+v, want %s %s %s %d", shown, got, c.address, c.host, c.origin, c.port)
		}
	}
}

// The class of a URL is true of its own origin: it classifies to itself, Go's parser agrees on the
// host, and a literal address is judged as that address.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{
		"https://example.com/", "http://0x7f.1", "http://[::ffff:127.0.0.1]:1/", "http:\\\\a@b", "about:blank", "data:,", "http://bücher.example",
		"http://2130706433", "http://a%41.b", "ws://x:0", "http://1.2.3.4.", "ht\ttp://x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d := Classify(raw)
		if d.Host == "" {
			if d.Origin != "null" || d.Port != 0 || (d.Address != None && d.Address != Other) {
				t.Fatalf("%q: %+v", raw, d)
			}
			return
		}
		if again := Classify(d.Origin); again != d {
			t.Fatalf("%q: %+v, its origin %+v", raw, d, again)
		}
		if ip, err := netip.ParseAddr(d.Host); err == nil {
			if d.Address != classifyIP(ip) || d.Address == Name {
				t.Fatalf("%q: %+v", raw, d)
			}
		} else if d.Address == Public {
			t.Fatalf("%q: a name is called a public address: %+v", raw, d)
		}
		if u, err := url.Parse(d.Origin); err == nil && u.Hostname() != d.Host {
			t.Fatalf("%q: host %q, net/url says %q", raw, d.Host, u.Hostname())
		}
	})
}
