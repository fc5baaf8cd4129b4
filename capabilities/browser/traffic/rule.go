package traffic

import (
	"errors"
	"net/url"
	"strings"
)

// Kind is what a rule does with the requests that it matches.
type Kind string

// The kinds.
const (
	Block   Kind = "block"   // they fail
	Mock    Kind = "mock"    // they are answered by the rule, and nothing is sent
	Delay   Kind = "delay"   // they are sent later
	Headers Kind = "headers" // they are sent with headers of the rule's
)

// Rule is one rule of a conversation.
type Rule struct {
	Kind        Kind
	URL         string // of the whole address; * stands for any characters
	Method      string // "": any
	Status      int    // of a mock
	ContentType string
	Body        []byte
	Header      map[string]string // of a mock's answer, or of the requests
	DelayMS     int
}

// Check says what is wrong with a rule.
func (r *Rule) Check() error {
	switch {
	case r.Kind == Headers && len(r.Header) == 0:
		return errors.New("headers: a rule of this kind has some")
	case r.Kind == Headers && r.Origin() == "":
		return errors.New("match: headers go to one origin, so it begins with one, such as https://api.example.com/*")
	case r.Kind == Delay && r.DelayMS == 0:
		return errors.New("delay_ms: a rule of this kind has one")
	}
	for name, value := range r.Header {
		lower := strings.ToLower(name)
		switch {
		case name == "" || strings.Trim(lower, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || strings.ContainsAny(value, "\r\n\x00"):
			return errors.New("headers: a name has letters, digits and hyphens, and a value is one line")
		case r.Kind == Headers && (lower == "host" || lower == "content-length" || strings.HasPrefix(lower, "proxy-")):
			return errors.New("headers: " + lower + " is the browser's own")
		}
	}
	return nil
}

// Origin is the origin that a rule's addresses begin with; "" where they may be of several.
func (r *Rule) Origin() string {
	scheme, rest, ok := strings.Cut(r.URL, "://")
	host, _, slash := strings.Cut(rest, "/")
	if !ok || !slash || scheme != "http" && scheme != "https" || host == "" || strings.ContainsAny(host, "*@?#") {
		return ""
	}
	return strings.ToLower(scheme + "://" + host)
}

// Matches reports whether a rule is about a request.
func (r *Rule) Matches(method, address string) bool {
	if r.Method != "" && !strings.EqualFold(r.Method, method) {
		return false
	}
	if origin := r.Origin(); origin != "" {
		at, err := url.Parse(address)
		if err != nil || at.User != nil || strings.ToLower(at.Scheme+"://"+at.Host) != origin {
			return false
		}
	}
	address, _, _ = strings.Cut(address, "#")
	return glob(r.URL, address)
}

// glob matches a text against a pattern whose * is any characters. It goes back to the latest star
// only, which is enough: time is bounded by the product of both lengths.
func glob(pattern, text string) bool {
	p, t, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
