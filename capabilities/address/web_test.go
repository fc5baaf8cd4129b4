package address

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestWeb(t *testing.T) {
	for raw, want := range map[string]string{ // "": none
		"https://example.com":                                "https example.com ",
		"https://example.com/a?b=c":                          "https example.com /a",
		"http://127.0.0.1:8080/":                             "http 127.0.0.1:8080 /",
		"http://[::1]:80/x":                                  "http [::1]:80 /x",
		"HTTPS://EXAMPLE.com/":                               "https EXAMPLE.com /",
		"https://bücher.example/":                            "https bücher.example /",
		"https://example.com./":                              "https example.com. /",
		"":                                                   "",
		"example.com":                                        "",
		"/path":                                              "",
		"//example.com/":                                     "",
		"https:example.com":                                  "", // a browser opens https://example.com/
		"https:/example.com":                                 "",
		"https:///example.com":                               "",
		"https://":                                           "",
		"https://:443/":                                      "",
		"https://user@example.com/":                          "",
		"https://user:word@example.com/":                     "",
		"https://@example.com/":                              "",
		"https://example.com/#a":                             "",
		"https://example.com#":                               "",
		`https://example.com\@evil.example/`:                 "",
		`https://evil.example\.example.com/`:                 "",
		" https://example.com/":                              "",
		"https://exam\nple.com/":                             "",
		"https://exam\tple.com/":                             "",
		"https://example.com:/":                              "https example.com: /",
		"https://example.com:0443/":                          "https example.com:0443 /",
		"https://example.com:99999/":                         "",
		"https://example.com:4 43/":                          "",
		"https://[::1%25eth0]/":                              "",
		"https://[::1/":                                      "",
		"https://127.0.0.1.:80/":                             "https 127.0.0.1.:80 /",
		"https://exa%6dple.com/":                             "",
		"https://evil.example%2f.example.com/":               "",
		"https://evil.example%00.example.com/":               "",
		"https://a..b/":                                      "",
		"ftp://example.com/":                                 "",
		"javascript:alert(1)":                                "",
		"file:///etc/passwd":                                 "",
		"data:text/html,x":                                   "",
		"ws://example.com/":                                  "",
		"https://" + strings.Repeat("a", 300):                "",
		"https://example.com/" + strings.Repeat("a", maxURL): "",
	} {
		u, ok := Web(raw)
		got := ""
		if ok {
			got = u.Scheme + " " + u.Host + " " + u.Path
		}
		if got != want {
			t.Errorf("%.80q is %q, not %q", raw, got, want)
		}
	}
}

// An address that is one leads Go's own client to the host and port that the rules see.
func FuzzWeb(f *testing.F) {
	for _, seed := range []string{"https://example.com/", `http://a\@b/`, "http://127.1:80/x", "https://[::ffff:1.2.3.4]/", "http://xn--bcher-kva.example", "http://0x7f.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, ok := Web(raw)
		if !ok {
			return
		}
		r, err := http.NewRequest(http.MethodGet, u.String(), nil)
		if err != nil {
			t.Fatalf("%q is an address, and no request can be made to it: %v", raw, err)
		}
		to := Classify(u.String())
		if to.Scheme != r.URL.Scheme || to.Host == "" || r.URL.User != nil {
			t.Fatalf("%q leads to %q, and is judged as %+v", raw, r.URL, to)
		}
		if port := r.URL.Port(); port != "" {
			if n, err := strconv.Atoi(port); err != nil || n != to.Port {
				t.Fatalf("%q leads to port %s, and is judged as %+v", raw, port, to)
			}
		}
	})
}
