package egress

import (
	"testing"
)

func TestDomains(t *testing.T) {
	d, err := readDomains([]string{"Example.com", "*.shop.test.", "10.0.0.1", "::1", " spaced.test "})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"example.com": true, "EXAMPLE.com.": true, "www.example.com": false, "notexample.com": false, "example.com.evil": false,
		"shop.test": true, "a.shop.test": true, "b.a.shop.test": true, "ashop.test": false, "shop.test.evil": false,
		"10.0.0.1": true, "10.0.0.11": false, "[::1]": true, "::1": true, "spaced.test": true, "": false, ".": false, "test": false,
	} {
		if d.match(plainHost(host)) != want {
			t.Errorf("%q: want %v", host, want)
		}
	}
	for _, bad := range []string{"", "*", "*.", "http://x", "x:80", "x/y", "a b", "a..b", "*.*.a", "münchen.de", "*.10.0.0.1/8", "a*b"} {
		if _, err := readDomains([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if d := Granted([]string{"network.browser.session", "network.egress.https"}); d != nil {
		t.Error("grants without a host narrow:", d)
	}
	for _, g := range []string{DomainGrant, DomainGrant + "*", DomainGrant + "http://x"} {
		if d := Granted([]string{g}); d == nil || d.match("x") || d.match("") || d.match("http") {
			t.Errorf("%s: %q", g, d)
		}
	}
}
