package tools

import "slices"

// plumbing are the domains that exist for more than a capability that a model invokes (S3-22,
// S3-23). Their subjects on the bus are reserved, and a tool of one does not make it a tool's
// domain (S3-29).
var plumbing = []string{"audit", "blob", "cli", "event", "gh", "jobs", "llm", "outbound", "turns", "verify"}

// Plumbing reports whether a domain is plumbing.
func Plumbing(domain string) bool { return slices.Contains(plumbing, domain) }

// PlumbingDomains returns the domains that are plumbing, sorted.
func PlumbingDomains() []string { return slices.Clone(plumbing) }

// Subject is the prefix of a domain's subjects on the bus: factory.tool.<domain> for a tool's
// domain (S3-24), factory.<domain> for plumbing (S3-25).
func Subject(domain string) string {
	if Plumbing(domain) {
		return "factory." + domain
	}
	return "factory.tool." + domain
}

// AllTools is the one subscription that discovers every tool's domain (S3-26).
const AllTools = "factory.tool.>"
