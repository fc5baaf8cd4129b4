package capabilities

// KeyPages is the capability key of what works in pages of a browser.
const KeyPages = "network.browser.session"

// NarrowDomains begins a key of an envelope that narrows a lane's way to the network to one host,
// such as "network.egress.domain_allowlist:example.com". Tools with KeyPages go that way.
const NarrowDomains = "network.egress.domain_allowlist:"
