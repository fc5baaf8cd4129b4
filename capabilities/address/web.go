package address

import (
	"net/url"
	"strconv"
	"strings"
)

// Web reads the address of a place on the web that this program asks, or sends a person to: http or
// https with a host, without a user and a fragment. A text that Go's own parser and a browser read
// as different places is none, whichever of the two is right.
func Web(raw string) (*url.URL, bool) {
	if len(raw) > maxURL || strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' || c == '#' }) {
		return nil, false
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || u.User != nil {
		return nil, false
	}
	to := Classify(raw)
	host := u.Hostname()
	if strings.HasPrefix(u.Host, "[") {
		host = "[" + host + "]"
	}
	name, _, ok := parseHost(host)
	if !ok || to.Scheme != u.Scheme || to.Host != name {
		return nil, false
	}
	port := defaultPorts[u.Scheme]
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil {
			return nil, false
		}
	}
	return u, to.Port == port
}
