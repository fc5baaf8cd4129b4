package egress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
)

// Way is where one provider, workspace or client may connect: the hosts that were named, and, for
// one call (For), those that a person permits it. All methods are safe for concurrent use.
type Way struct {
	*shared
	ask Ask // nil: nobody can be asked
	// onward leads where an answer pointed: a host is not reached because it is a public one.
	onward bool
	// reached is told each target that a connection was made to; nil: nobody.
	reached func(target string)
}

// shared is what a way and those of its calls have in common.
type shared struct {
	hosts []namedHost
	flag  string // the flag that names one more host
	// public has hosts reached that nobody named, where their addresses are public.
	public bool
	rules  *Rules
	hold
	moved moved

	mu      sync.Mutex
	refused map[string]*Refused // by target
	seq     uint64
}

// namedHost is one entry: "example.com", "*.example.com", "127.0.0.1:8080".
type namedHost struct {
	name string // without "*."; an address in its plain form
	wild bool
	port string // "": 80 and 443
}

// Refused is a target that was asked for and not connected to.
type Refused struct {
	Target string // "host:port", or a socket in words
	Why    string
	// Flag allows it, such as "--net example.com"; "" where none does.
	Flag  string
	Count int
	last  uint64
}

// Bounds of a Way.
const (
	maxHosts   = 64
	maxRefused = 64 // targets that are remembered
)

// NewWay reads the hosts that may be connected to. flag is how its owner names one, such as
// "--net"; refusals say so. The error names the entry that cannot be read.
func NewWay(hosts []string, flag string) (*Way, error) {
	rules, err := NewRules(nil)
	if err != nil {
		return nil, err
	}
	w := &Way{shared: &shared{flag: flag, rules: rules, refused: map[string]*Refused{}}}
	if len(hosts) > maxHosts {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "at most %d hosts", maxHosts)
	}
	for _, entry := range hosts {
		h, err := readHost(entry)
		if err != nil {
			return nil, err
		}
		w.hosts = append(w.hosts, h)
	}
	return w, nil
}

// NewPublicWay is a way to all public addresses, and to the hosts that are named besides.
func NewPublicWay(hosts []string, flag string) (*Way, error) {
	w, err := NewWay(hosts, flag)
	if err == nil {
		w.public = true
	}
	return w, err
}

// Name adds origins that its owner named, such as "http://127.0.0.1:8080". To be called, as Narrow
// is, before the way is used.
func (w *Way) Name(origins []string) error {
	if _, err := NewRules(origins); err != nil {
		return err
	}
	for _, origin := range origins {
		to := address.Classify(origin)
		h, err := readHost(net.JoinHostPort(to.Host, strconv.Itoa(to.Port)))
		if err != nil {
			return err
		}
		w.hosts = append(w.hosts, h)
	}
	return nil
}

// Narrow adds the owner's domains, which hold for every connection; an entry that is none is an
// error that names it.
func (w *Way) Narrow(allow, block []string) error { return w.rules.Narrow(allow, block) }

func readHost(entry string) (h namedHost, err error) {
	bad := func() (namedHost, error) {
		return namedHost{}, capabilities.Errorf(capabilities.CodeInvalidRequest,
			"%.200q is no host: want example.com, *.example.com, example.com:8443 or 127.0.0.1:8080", entry)
	}
	text := strings.ToLower(strings.TrimSpace(entry))
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return namedHost{name: addr.Unmap().String()}, nil
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port != strconv.FormatUint(n, 10) {
			return bad()
		}
		text, h.port = host, port
	}
	text = strings.TrimSuffix(text, ".")
	if h.name, h.wild = strings.CutPrefix(text, "*."); h.wild && !strings.Contains(h.name, ".") {
		return bad() // a whole top-level domain
	}
	if addr, err := netip.ParseAddr(h.name); err == nil && !h.wild {
		h.name = addr.Unmap().String()
		return h, nil
	}
	if !validName(h.name) {
		return bad()
	}
	return h, nil
}

// named returns the entry that names a target; of several the most exact.
func (w *Way) named(host, port string) (namedHost, bool) {
	var found namedHost
	ok := false
	for _, h := range w.hosts {
		switch {
		case h.port != port && (h.port != "" || port != "80" && port != "443"):
		case host == h.name && !h.wild, h.name == "localhost" && loopback(host):
			return h, true
		case h.wild && (host == h.name || strings.HasSuffix(host, "."+h.name)):
			found, ok = h, true
		}
	}
	return found, ok
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// Empty reports whether it leads nowhere.
func (w *Way) Empty() bool { return w == nil || len(w.hosts) == 0 && !w.public }

// Check decides on a target by its name and port alone; a Dial may still refuse its address.
func (w *Way) Check(host, port string) error {
	host = plainAddr(host)
	_, named := w.named(host, port)
	if err := w.rules.narrowed(host, named, nil); err != nil {
		return err
	}
	if named || w.public {
		return nil
	}
	return w.refuse(host, port, "nobody named it")
}

// plainAddr spells a host in one way; an IPv4 address inside an IPv6 one is that address.
func plainAddr(host string) string {
	host = plainHost(host)
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return host
}

// resolve returns the addresses of a target that may be dialled, each checked; until is set where a
// person permitted it.
func (w *Way) resolve(ctx context.Context, host, port string) (until context.Context, addrs []netip.Addr, err error) {
	if until, err = w.admit(ctx, host, port, nil); err != nil {
		return nil, nil, err
	}
	if !w.gate.pass(ctx) { // the person may have taken their time
		return nil, nil, context.Cause(ctx)
	}
	addrs, err = w.addresses(ctx, host, port)
	return until, addrs, err
}

// addresses are those of a target that was admitted.
func (w *Way) addresses(ctx context.Context, host, port string) ([]netip.Addr, error) {
	host = plainAddr(host)
	h, named := w.named(host, port)
	exact := named && !h.wild
	if addr, err := netip.ParseAddr(host); err == nil {
		if why := w.rules.near([]netip.Addr{addr}); why != "" && !exact {
			return nil, w.refuse(host, port, "its address is "+why)
		}
		return []netip.Addr{addr}, nil
	}
	if IsLocalhost(host) {
		if !exact {
			return nil, w.refuse(host, port, "its address is loopback")
		}
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	addrs, err := w.rules.Lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		return nil, capabilities.Wrap(capabilities.CodeNavigationFailed, err, fmt.Sprintf("The name %.253q does not resolve.", host))
	}
	if len(addrs) > maxHosts {
		addrs = addrs[:maxHosts]
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
	}
	// One bad address spoils the name: a mixed answer is how rebinding starts. A caller that
	// names a host by its very name may mean one of the house; the answer for the name is not
	// to say that it is this machine, a neighbour on the link or a metadata service.
	for _, addr := range addrs {
		why := w.rules.near([]netip.Addr{addr})
		if exact && w.rules.own(addr) {
			why = "this machine's own"
		}
		if why != "" && (!exact || why != "private" && why != "on the local network") {
			return nil, w.refuse(host, port, "its address is "+why)
		}
	}
	return addrs, nil
}

// refuse records a refusal and words it.
func (w *Way) refuse(host, port, why string) error {
	target := net.JoinHostPort(host, port)
	r := Refused{Target: target, Why: why}
	e := capabilities.Errorf(capabilities.CodeURLBlocked, "%.260s may not be reached: %s.", target, why)
	if entry := FlagHost(host, port); w.flag != "" && entry != "" {
		_, named := w.named(host, port)
		if !named || w.public { // naming it once more changes nothing
			r.Flag = w.flag + " " + entry
			e = e.WithHint("Allow it with " + r.Flag + ".")
		}
	}
	w.note(r)
	return e
}

// Socket records that a program which has no network wanted a socket and did not get it.
func (w *Way) Socket(name string) {
	if w != nil {
		w.note(Refused{Target: name, Why: "the program's class has no network"})
	}
}

// note counts a refusal.
func (w *Way) note(r Refused) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seq++
	if was := w.refused[r.Target]; was != nil {
		r.Count = was.Count
	} else if len(w.refused) >= maxRefused {
		oldest := slices.MinFunc(w.listLocked(), func(a, b Refused) int { return cmp.Compare(a.last, b.last) })
		delete(w.refused, oldest.Target)
	}
	r.Count++
	r.last = w.seq
	w.refused[r.Target] = &r
}

// FlagHost is how a target is named; "" for what cannot be.
func FlagHost(host, port string) string {
	entry := plainAddr(host)
	if addr, err := netip.ParseAddr(entry); err == nil && addr.Is6() {
		entry = "[" + entry + "]"
	}
	if port != "80" && port != "443" {
		entry += ":" + port
	}
	if _, err := readHost(entry); err != nil {
		return ""
	}
	return entry
}

func (w *Way) listLocked() []Refused {
	list := make([]Refused, 0, len(w.refused))
	for _, r := range w.refused {
		list = append(list, *r)
	}
	return list
}

// Refused returns what was refused, the newest first; at most 64 targets.
func (w *Way) Refused() []Refused {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	list := w.listLocked()
	w.mu.Unlock()
	sort.Slice(list, func(i, j int) bool { return list[i].last > list[j].last })
	return list
}

// Dial connects to "host:port" if it may be reached: CodeURLBlocked, with the flag that would
// allow it, or CodeNavigationFailed. A name is resolved once; what is dialled is what was checked.
func (w *Way) Dial(ctx context.Context, _, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeInvalidArguments, err, "")
	}
	if !w.gate.pass(ctx) {
		return nil, context.Cause(ctx)
	}
	until, addrs, err := w.resolve(ctx, host, port)
	if err != nil {
		return nil, err
	}
	conn, err := dialAny(ctx, addrs, port)
	if err != nil {
		return nil, capabilities.Wrap(capabilities.CodeNavigationFailed, err, fmt.Sprintf("The server %.260s does not answer.", target))
	}
	if until != nil {
		conn = lend(conn, until)
	}
	target = net.JoinHostPort(plainAddr(host), port)
	if w.reached != nil {
		w.reached(target)
	}
	return w.moved.count(conn, target), nil
}
