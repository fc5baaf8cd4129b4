package record

import (
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/browser/outline"
)

const (
	// MaxDataURL bounds what is told of an address that holds its own data.
	MaxDataURL = 256
	// Slack is how much more of a text is kept than an answer has of it, so that what was
	// typed in secret is found there before the text is cut: of a piece nobody could tell.
	Slack = 4 << 10
)

// PlainURL is an address as results show it: without user name and password,
// inline data cut.
func PlainURL(raw string) string {
	if strings.HasPrefix(raw, "data:") {
		return outline.Clip(raw, MaxDataURL)
	}
	return outline.Clip(WithoutUser(raw), 2<<10)
}

// WithoutUser is an address, as Chrome spells it, without its user name and password.
func WithoutUser(raw string) string {
	scheme := strings.Index(raw, "://")
	if scheme <= 0 || strings.ContainsAny(raw[:scheme], "/?#") { // of an address's kind is nothing else
		return raw
	}
	place := raw[scheme+len("://"):]
	end := strings.IndexAny(place, "/?#")
	if end < 0 {
		end = len(place)
	}
	return raw[:scheme+len("://")] + place[strings.LastIndexByte(place[:end], '@')+1:]
}

// netErrors words Chrome's network errors.
var netErrors = map[string]string{
	"net::ERR_NAME_NOT_RESOLVED":    "The name does not resolve.",
	"net::ERR_CONNECTION_REFUSED":   "The server refused the connection.",
	"net::ERR_CONNECTION_RESET":     "The server cut the connection.",
	"net::ERR_CONNECTION_TIMED_OUT": "The server does not answer.",
	"net::ERR_EMPTY_RESPONSE":       "The server sent nothing.",
	"net::ERR_TOO_MANY_REDIRECTS":   "The server redirects in a circle.",
	"net::ERR_UNSAFE_PORT":          "Browsers do not open that port.",
	"net::ERR_ABORTED":              "The address has a download or nothing to show.",
	"net::ERR_INVALID_URL":          "The address is not valid.",
	"net::ERR_BLOCKED_BY_CLIENT":    "The browser blocks that address.",
}

// NetError returns the words for an error of Chrome's network.
func NetError(text string) (words string, known bool) {
	words, known = netErrors[text]
	return words, known
}

// failureText words why a request failed, as Chrome sees it.
func failureText(e *Event) string {
	switch {
	case e.CORS != nil && e.CORS.Error != "":
		return "refused by CORS (" + e.CORS.Error + ")"
	case e.BlockedReason != "":
		return "blocked by the browser (" + e.BlockedReason + ")"
	case e.Canceled || e.ErrorText == "net::ERR_ABORTED":
		return "cancelled"
	case netErrors[e.ErrorText] != "":
		return netErrors[e.ErrorText] + " (" + e.ErrorText + ")"
	}
	return capabilities.Clip(e.ErrorText, 200)
}
