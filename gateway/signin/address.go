package signin

import (
	"net/http"
	"net/url"
	"time"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/address"
	"github.com/handrail-dev/handrail/capabilities/egress"
)

// Bounds of what an authorization server says.
const (
	maxAddress = 2 << 10 // bytes
	maxAnswer  = 256 << 10
	askTime    = 20 * time.Second
)

// way is where the gateway asks for one sign-in: public addresses, and the hosts that the admin
// named, the server itself among them.
type way struct {
	named  map[string]bool // "host:port" of what may be plain HTTP
	client *http.Client
	egress *egress.Way
}

func newWay(server *url.URL, net []string) (*way, error) {
	w, err := egress.NewPublicWay(append([]string{egress.HostOf(server)}, net...), "--net")
	if err != nil {
		return nil, err
	}
	named := map[string]bool{egress.HostOf(server): true}
	for _, n := range net {
		named[n] = true
	}
	return &way{egress: w, named: named, client: &http.Client{
		Transport: w.Transport(egress.TransportOptions{MaxBytes: maxAnswer, HeaderTimeout: askTime}), Timeout: askTime,
		// A redirect is somebody else's word for where codes, tokens and secrets go.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}, nil
}

var errRedirect = capabilities.Errorf(capabilities.CodeExecutionFailed, "the server redirects to another place")

// parse is the one reader of addresses: https, or http where the admin named the very host.
func (w *way) parse(what, raw string) (*url.URL, error) {
	u, err := readAddress(what, raw)
	if err == nil && u.Scheme == "http" && !w.named[egress.HostOf(u)] {
		err = capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: %.200s is not https", what, capabilities.Printable(raw)).
			WithHint("Name its host, too, if it is one of your own.")
	}
	return u, err
}

func readAddress(what, raw string) (*url.URL, error) {
	u, ok := address.Web(raw)
	if !ok || len(raw) > maxAddress {
		return nil, capabilities.Errorf(capabilities.CodeInvalidRequest, "%s: not an http or https address without a user or fragment", what)
	}
	return u, nil
}

// failed words that a server could not be asked. An address that may not be reached is named; a
// server's own words are not: they may hold a secret.
func (w *way) failed(message string) error {
	if refused := w.egress.Refused(); len(refused) > 0 {
		r := refused[0]
		e := capabilities.Errorf(capabilities.CodeURLBlocked, "%s may not be reached: %s", r.Target, r.Why)
		if r.Flag != "" {
			e = e.WithHint("Allow it with " + r.Flag + " if it is one of your own.")
		}
		return e
	}
	return capabilities.Errorf(capabilities.CodeExecutionFailed, "%s", message)
}
