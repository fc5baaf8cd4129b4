package tracetest

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Check wants a trace to be well-formed, to load nothing and to run nothing.
func Check(t *testing.T, text string) {
	t.Helper()
	z := html.NewTokenizer(strings.NewReader(text))
	var open []string
	void := map[string]bool{"meta": true, "img": true, "br": true}
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF {
				t.Fatal(z.Err())
			}
			if len(open) != 0 {
				t.Errorf("never closed: %q", open)
			}
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			tok := z.Token()
			if tok.Data == "script" || tok.Data == "link" || tok.Data == "iframe" || tok.Data == "object" {
				t.Errorf("it has a <%s>", tok.Data)
			}
			for _, a := range tok.Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("it has the handler %s", a.Key)
				}
				if (a.Key == "src" || a.Key == "href" || a.Key == "srcset" || a.Key == "style") && !strings.HasPrefix(a.Val, "data:image/") {
					t.Errorf("it refers to %s=%q", a.Key, a.Val)
				}
			}
			if !void[tok.Data] {
				open = append(open, tok.Data)
			}
			if tok.Data == "style" {
				z.Next()
				if css := string(z.Text()); regexp.MustCompile(`url\(|@import`).MatchString(css) {
					t.Error("its style loads something")
				}
			}
		case html.EndTagToken:
			tok := z.Token()
			if len(open) == 0 || open[len(open)-1] != tok.Data {
				t.Errorf("</%s> closes nothing; open are %q", tok.Data, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
}
