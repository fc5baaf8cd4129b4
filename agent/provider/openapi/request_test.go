package openapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

func requestOf(q *tools.Request, args string) (*http.Request, error) {
	if q.Server == "" {
		q.Server = "https://a.example/v1"
	}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	return NewRequest(context.Background(), q, json.RawMessage(args), nil)
}

// The examples of the specification's table of styles (OpenAPI 3.1.0, 4.8.12.2), as far as they
// are defined, with the colours "blue", "black", "brown" and R, G, B.
func TestStyles(t *testing.T) {
	const list, object = `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	for _, c := range []struct {
		in, style string
		explode   bool
		value     string
		want      string
	}{
		{"path", "matrix", false, `"blue"`, "/;color=blue"},
		{"path", "matrix", false, list, "/;color=blue,black,brown"},
		{"path", "matrix", false, object, "/;color=B,150,G,200,R,100"},
		{"path", "matrix", true, list, "/;color=blue;color=black;color=brown"},
		{"path", "matrix", true, object, "/;B=150;G=200;R=100"},
		{"path", "label", false, `"blue"`, "/.blue"},
		{"path", "label", false, list, "/.blue,black,brown"},
		{"path", "label", true, list, "/.blue.black.brown"},
		{"path", "label", true, object, "/.B=150.G=200.R=100"},
		{"path", "simple", false, list, "/blue,black,brown"},
		{"path", "simple", false, object, "/B,150,G,200,R,100"},
		{"path", "simple", true, object, "/B=150,G=200,R=100"},
		{"query", "form", true, `"blue"`, "/?color=blue"},
		{"query", "form", false, list, "/?color=blue,black,brown"},
		{"query", "form", true, list, "/?color=blue&color=black&color=brown"},
		{"query", "form", false, object, "/?color=B,150,G,200,R,100"},
		{"query", "form", true, object, "/?B=150&G=200&R=100"},
		{"query", "form", true, `""`, "/?color="},
		{"query", "form", true, `[]`, "/"},
		{"query", "spaceDelimited", false, list, "/?color=blue%20black%20brown"},
		{"query", "pipeDelimited", false, list, "/?color=blue%7Cblack%7Cbrown"},
		{"query", "deepObject", true, object, "/?color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100"},
		{"query", "form", true, `"a&b=c#d +%"`, "/?color=a%26b%3Dc%23d%20%2B%25"},
		{"query", "form", true, `1e3`, "/?color=1000"},
		{"query", "form", true, `true`, "/?color=true"},
		{"path", "simple", false, `"a/b?c#d%2e"`, "/a%2Fb%3Fc%23d%252e"},
		{"header", "simple", false, list, "blue,black,brown"},
		{"header", "simple", true, object, "B=150,G=200,R=100"},
		{"cookie", "form", true, `"a;b"`, "color=a%3Bb"},
		{"cookie", "form", false, list, "color=blue,black,brown"},
	} {
		q := &tools.Request{Path: "/", Params: []tools.Param{{Arg: "c", Name: "color", In: c.in, Style: c.style, Explode: c.explode}}}
		if c.in == "path" {
			q.Path = "/{color}"
		}
		r, err := requestOf(q, `{"c":`+c.value+`}`)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got := strings.TrimPrefix(r.URL.String(), "https://a.example/v1")
		switch c.in {
		case "header":
			got = r.Header.Get("color")
		case "cookie":
			got = r.Header.Get("Cookie")
		}
		if got != c.want {
			t.Errorf("%s %s %v %s: %s, not %s", c.in, c.style, c.explode, c.value, got, c.want)
		}
	}
}

// No value moves a request to another path, host or header.
func TestValuesStayWhereTheyAre(t *testing.T) {
	path := &tools.Request{Path: "/users/{id}/x", Params: []tools.Param{{Arg: "id", Name: "id", In: "path", Style: "simple", Required: true}}}
	for _, bad := range []string{`".."`, `"."`, `"../admin"`, `"a/../b"`, `"a\\..\\b"`, `""`, `["..",".."]`, `"%2e%2e"`} {
		if r, err := requestOf(path, `{"id":`+bad+`}`); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
			t.Errorf("%s: %v %v", bad, r, err)
		}
	}
	for _, good := range []string{`"@evil.example"`, `"//evil.example"`, `"a?b=c"`, `"a#b"`, `"x@y:z"`, `"\u0000"`} {
		r, err := requestOf(path, `{"id":`+good+`}`)
		if err != nil || r.URL.Host != "a.example" || r.URL.RawQuery != "" || !strings.HasPrefix(r.URL.EscapedPath(), "/v1/users/") || !strings.HasSuffix(r.URL.EscapedPath(), "/x") {
			t.Errorf("%s: %v %v", good, r, err)
		}
	}
	labels := &tools.Request{Path: "/{a}/{b}", Params: []tools.Param{{Arg: "a", Name: "a", In: "path", Style: "label", Explode: true}, {Arg: "b", Name: "b", In: "path", Style: "label", Explode: true}}}
	if r, err := requestOf(labels, `{"a":["",""],"b":["x"]}`); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments { // "." and "." make ".."
		t.Errorf("%v %v", err, r)
	}
	header := &tools.Request{Path: "/", Params: []tools.Param{{Arg: "h", Name: "X-A", In: "header", Style: "simple"}}}
	for _, bad := range []string{`"a\r\nHost: evil"`, `"a\nb"`, `"\u0000"`, `"ä"`, `" a"`} {
		if r, err := requestOf(header, `{"h":`+bad+`}`); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
			t.Errorf("%s: %v %v", bad, r, err)
		}
	}
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Connection", "Cookie", "Proxy-Authorization", "a b", "", "a:b"} {
		if tools.HeaderAllowed(name) {
			t.Errorf("%q is allowed", name)
		}
	}
	if _, err := requestOf(path, `{"id":"`+strings.Repeat("x", 20000)+`"}`); capabilities.CodeOf(err) != capabilities.CodeInvalidArguments {
		t.Errorf("%v", err)
	}
}

func TestBodies(t *testing.T) {
	for _, c := range []struct {
		body tools.Body
		args string
		mime string
		want string
	}{
		{tools.Body{MIME: "application/json"}, `{"body":{"b":[1,null],"a":"ä"}}`, "application/json", `{"a":"ä","b":[1,null]}`},
		{tools.Body{MIME: "application/vnd.api+json"}, `{"body":[]}`, "application/vnd.api+json", `[]`},
		{tools.Body{MIME: "application/json"}, `{"body":null}`, "application/json", `null`},
		{tools.Body{MIME: "application/json"}, `{}`, "", ``},
		{tools.Body{MIME: mimeForm}, `{"body":{"a":"x y&z","b":[1,2],"c":{"d":1}}}`, mimeForm, `a=x%20y%26z&b=1&b=2&c=%7B%22d%22%3A1%7D`},
		{tools.Body{MIME: mimeForm, Fields: map[string]tools.Field{"c": {Style: "deepObject", Explode: true}, "b": {Style: "form"}}}, `{"body":{"b":[1,2],"c":{"d":1,"e":["x","y"]}}}`, mimeForm, `b=1,2&c%5Bd%5D=1&c%5Be%5D%5B%5D=x&c%5Be%5D%5B%5D=y`},
		{tools.Body{MIME: "text/plain"}, `{"body":"hello\n"}`, "text/plain", "hello\n"},
	} {
		r, err := requestOf(&tools.Request{Method: http.MethodPost, Path: "/", Body: &c.body}, c.args)
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		var got []byte
		if r.Body != nil {
			if got, err = io.ReadAll(r.Body); err != nil {
				t.Error(err)
			}
		}
		if string(got) != c.want || r.Header.Get("Content-Type") != c.mime {
			t.Errorf("%s: %s %s", c.args, got, r.Header.Get("Content-Type"))
		}
	}
}
