package capabilities

// KeyPages is the capability key of what works in pages of a browser.
const KeyPages = "network.browser.session"

// KeyFetch is the capability key of what sends requests by plain HTTP itself.
const KeyFetch = "network.egress.http"

// NarrowDomains begins a key of an envelope that narrows a lane's way to the network to one host,
// such as "network.egress.domain_allowlist:example.com". Tools with KeyPages go that way, and
// built-in ones with KeyFetch.
const NarrowDomains = "network.egress.domain_allowlist:"
