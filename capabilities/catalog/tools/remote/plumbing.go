package remote

import (
	"slices"
	"strings"

	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// A worker on another machine asks the gateway over the bus in place of HTTPS (S3-23): a request of
// the REST surface, on the subject of the domain of plumbing that it belongs to.
//
//	factory.<domain>.ask.<worker>  worker → gateway  requests; only this worker may say them
//	_INBOX.<worker>.<token>        gateway → worker  the answer, in chunks; the last has its status
//
// The subject says who asks, and the server lets the holder of one key say it: no message carries a
// token.
const ask = ".ask."

// Header fields of messages about requests.
const (
	HeaderMethod = "Handrail-Method"
	HeaderPath   = "Handrail-Path"   // with its query
	HeaderEnds   = "Handrail-Ends"   // of a request that is given up: the subject of its answer
	HeaderStatus = "Handrail-Status" // of HTTP, on the last message of an answer
	HeaderType   = "Content-Type"
)

// MaxAsked is how many requests of one worker are under way on the bus at once; it asks the others
// over HTTPS. The gateway takes twice as many, for those that it has not ended yet.
const MaxAsked = 24

// surfaces are the domains that workers ask, with the paths of the REST surface below /v1 that each
// has. All else is asked over HTTPS.
var surfaces = map[string][]string{
	"audit": {"ledger"}, "cli": {"calls", "lanes", "memory", "permissions", "tools", "whoami"}, "jobs": {"jobs"}, "turns": {"turns"},
}

// Asks is where a worker asks a domain.
func Asks(domain, worker string) string { return tools.Subject(domain) + ask + worker }

// AllAsks are where a worker asks any domain; "*" stands for every worker.
func AllAsks(worker string) (all []string) {
	for domain := range surfaces {
		all = append(all, Asks(domain, worker))
	}
	slices.Sort(all)
	return all
}

// AskOf returns the domain and the worker of a subject of Asks; "" for any other subject.
func AskOf(subject string) (domain, worker string) {
	domain, worker, ok := strings.Cut(strings.TrimPrefix(subject, "factory."), ask)
	if _, known := surfaces[domain]; !ok || !known || worker == "" || strings.ContainsAny(worker, ".*>") {
		return "", ""
	}
	return domain, worker
}

// DomainOf returns the domain that a path of the REST surface belongs to; "" if it is none of a
// worker's.
func DomainOf(path string) string {
	rest, ok := strings.CutPrefix(path, "/v1/")
	if !ok || strings.Contains(rest, "..") {
		return ""
	}
	first := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))]
	if after := rest[len(first):]; after != "" && after[0] != '/' && after[0] != '?' {
		return ""
	}
	for domain, paths := range surfaces {
		if slices.Contains(paths, first) {
			return domain
		}
	}
	return ""
}
