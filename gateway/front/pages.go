package front

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/handrail-dev/handrail/capabilities"
)

// A client of MCP may run in a web page of another origin. Browsers let such a page read an answer
// only where the answer says so (CORS): here at MCP and at what leads there by OAuth, for the
// origins that the admin named, and never with cookies.

// pageHeaders are what a client's page may send besides what every page may.
var pageHeaders = strings.Join([]string{
	"Authorization", "Content-Type", "Mcp-Protocol-Version", "Mcp-Session-Id", "Mcp-Method", "Mcp-Name", "Last-Event-ID",
}, ", ")

// pageReads are what of an answer it may read besides the body.
const pageReads = "Mcp-Session-Id, WWW-Authenticate"

// CheckPage refuses what is not the origin of pages that came over TLS, or of this machine.
func CheckPage(origin string) error {
	u, err := url.Parse(origin)
	if err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && thisMachine(u.Hostname())) &&
		origin == u.Scheme+"://"+strings.ToLower(u.Host) {
		return nil
	}
	return capabilities.Errorf(capabilities.CodeInvalidRequest, "%.200q is not an origin of pages, such as https://chat.example", origin)
}

func thisMachine(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// forPages says that pages of Options.Pages may ask a pattern.
func (s *Server) forPages(pattern string) {
	if strings.Contains(pattern, " ") {
		s.shared.Handle(pattern, http.NotFoundHandler())
		return
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} { // of MCP
		s.shared.Handle(method+" "+pattern, http.NotFoundHandler())
	}
}

// clientPage reports whether a page of an origin that the admin named asks for what a client may
// ask. Host is checked besides.
func (s *Server) clientPage(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) != 1 || !s.pages[origins[0]] {
		return false
	}
	asks := r
	if preflight(r) {
		asks = &http.Request{Method: r.Header.Get("Access-Control-Request-Method"), URL: r.URL, Host: r.Host}
	}
	_, pattern := s.shared.Handler(asks)
	return pattern != ""
}

// preflight reports whether a browser asks whether a page may ask.
func preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// answersPage says in an answer that the page may read it, and reports whether that is all that was
// asked.
func answersPage(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Add("Vary", "Origin")
	if !preflight(r) {
		h.Set("Access-Control-Expose-Headers", pageReads)
		return false
	}
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	h.Set("Access-Control-Allow-Headers", pageHeaders)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
