package main

import (
	"net"
	"testing"
)

func TestReachable(t *testing.T) {
	addr := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		return n
	}
	for _, c := range []struct {
		own  []string
		want string
	}{
		{[]string{"127.0.0.1/8", "::1/128"}, ""},
		{[]string{"127.0.0.1/8", "fe80::1/64", "fd09::2/64", "192.0.2.2/24"}, "192.0.2.2"},
		{[]string{"::1/128", "fd09::2/64"}, "fd09::2"},
	} {
		var own []net.Addr
		for _, s := range c.own {
			own = append(own, addr(s))
		}
		if got := reachable(own); got != c.want {
			t.Errorf("%v: %q, not %q", c.own, got, c.want)
		}
	}
}

// A code that no other machine can use is known by its addresses.
func TestOnlyHere(t *testing.T) {
	if onlyHere("hr1:paste") {
		t.Error("what cannot be read is said to be for this machine")
	}
}

// What somebody wrote finds the tool, the node and the grant that they meant, or several.
func TestChoose(t *testing.T) {
	all := []named{{ID: "n9ep1rqg", Label: "desk"}, {ID: "n9fx77", Label: "Desk 2"}, {ID: "ncn28", Label: ""}}
	for text, want := range map[string]string{"n9ep1rqg": "n9ep1rqg", "DESK": "n9ep1rqg", "desk 2": "n9fx77", "nc": "ncn28", "n9f": "n9fx77", "n9": "", "des": "", "nope": ""} {
		if got, err := choose("node", text, all); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", text, got, err)
		}
	}
}
