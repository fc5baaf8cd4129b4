package capabilities

import "strings"

// KeyPages is the capability key of what works in pages of a browser.
const KeyPages = "network.browser.session"

// KeyFetch is the capability key of what sends requests by plain HTTP itself.
const KeyFetch = "network.egress.http"

// NarrowDomains begins a key of an envelope that narrows a lane's way to the network to one host,
// such as "network.egress.domain_allowlist:example.com". Tools with KeyPages go that way, and
// built-in ones with KeyFetch.
const NarrowDomains = "network.egress.domain_allowlist:"

// KeyEgress is the capability key of what reaches hosts through the egress proxy of its node.
const KeyEgress = "network.egress.https"

// FitsHost reports whether a host fits a key after NarrowDomains, as Readiness.Hosts are: a name,
// "*." before one, an IPv4 address, each with or without a port.
func FitsHost(host string) bool {
	return host != "" && len(host) <= MaxHostText && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.*:_-") == ""
}
