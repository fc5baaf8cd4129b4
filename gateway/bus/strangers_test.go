package bus

import (
	"fmt"
	"net/netip"
	"testing"
)

// crowd is a list of strangers, so many of each address one after the other.
func crowd(many map[string]int) (list []stranger) {
	for ip, n := range many {
		for range n {
			list = append(list, stranger{uint64(len(list) + 1), holderOf(ip)})
		}
	}
	return list
}

// left counts the strangers who stay, by whose they are.
func left(list []stranger) map[netip.Prefix]int {
	stay := map[netip.Prefix]int{}
	for _, c := range list {
		stay[c.from]++
	}
	for _, c := range tooMany(list) {
		stay[c.from]--
	}
	return stay
}

// Strangers of one address are so many and no more, and its oldest leave first; nobody of another
// address does.
func TestStrangersOfOneAddress(t *testing.T) {
	list := append([]stranger{{1, holderOf("192.0.2.1")}, {2, holderOf("192.0.2.2")}}, crowd(map[string]int{"192.0.2.1": 2000})...)
	for i := range list {
		list[i].client = uint64(i + 1)
	}
	out := tooMany(list)
	if len(out) != 2001-strangersOfOne || out[0].client != 1 || out[1].client != 3 || out[len(out)-1].client != uint64(2002-strangersOfOne) {
		t.Errorf("%d leave, from %v to %v", len(out), out[0], out[len(out)-1])
	}
	if out := tooMany(crowd(map[string]int{"192.0.2.1": strangersOfOne, "127.0.0.1": 3 * strangersOfOne})); len(out) != 0 {
		t.Errorf("%d leave although there is room", len(out))
	}
}

// Where strangers of many addresses are too many, those leave who have the most; this machine has
// several shares, for all of its programs are one address.
func TestStrangersInAll(t *testing.T) {
	many := map[string]int{"2001:db8::1": 1, "127.0.0.1": 5000}
	for i := range 20 {
		many[fmt.Sprintf("192.0.2.%d", i)] = 1 + i*10
	}
	stay := left(crowd(many))
	all, most := 0, 0
	for from, n := range stay {
		if all += n; from != (netip.Prefix{}) {
			most = max(most, n)
		}
	}
	if all > maxStrangers || all < maxStrangers/2 {
		t.Errorf("%d stay: %v", all, stay)
	}
	for ip, had := range many {
		if n := stay[holderOf(ip)]; n < min(had, most) {
			t.Errorf("%s keeps %d of %d, and another %d", ip, n, had, most)
		}
	}
	// However many addresses there are, each that comes last is in.
	many = map[string]int{}
	for i := range 1000 {
		many[fmt.Sprintf("198.51.%d.%d", i/250, i%250)] = 2
	}
	for from, n := range left(crowd(many)) {
		if n != 1 {
			t.Errorf("%s keeps %d", from, n)
		}
	}
}

// Whose a connection is: an address, the /64 of IPv6 that one has as a whole, or this machine.
func TestHolders(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false}, {"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true}, {"2001:db8::1", "2001:db8:0:1::1", false},
		{"127.0.0.1", "::1", true}, {"127.0.0.1", "127.0.0.2", true}, {"fe80::1%eth0", "fe80::2", true}, {"192.0.2.1", "127.0.0.1", false},
	} {
		if a, b := holderOf(c.a), holderOf(c.b); (a == b) != c.same {
			t.Errorf("%s and %s: %s, %s", c.a, c.b, a, b)
		}
	}
}
