package openapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/handrail-dev/handrail/capabilities"
	"github.com/handrail-dev/handrail/capabilities/catalog/tools"
)

// Any document is read or refused with a code; what it makes is the same each
// time, also when it is reduced and packed, and every request of it goes to a place that the
// manifest shows.
func FuzzManifest(f *testing.F) {
	data, err := os.ReadFile("testdata/petstore.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(small(`{"url":"https://a.example"}`, `"/x/{a}"`, `{"parameters":[{"name":"a","in":"path","schema":{"$ref":"#/components/schemas/A"}}]}`))
	f.Add(manyOperations(2))
	f.Add([]byte("openapi: 3.1.0\nservers: [{url: https://a.example}]\nx: &a {get: {<<: *a, operationId: b}}\npaths: {/a: *a}\n"))
	f.Add([]byte(`"data:application/gzip;base64,H4sIAAAAAAAA/wEAAP//AAAAAAAAAAA="`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 64<<10 {
			return
		}
		p := record()
		p.Env = []tools.Credential{{Name: "token", Secret: "s"}}
		m, err := Manifest(p, data, nil)
		if err != nil {
			if code := capabilities.CodeOf(err); m != nil || code != capabilities.CodeInvalidRequest && code != capabilities.CodeResultTooLarge {
				t.Fatalf("%v %v", m, err)
			}
			return
		}
		if again, err := Manifest(p, data, nil); err != nil || again.Hash() != m.Hash() || m.Hash() == "" {
			t.Fatalf("another manifest: %v", err)
		}
		if less, err := Reduce(p, data); err == nil {
			zipped, err := Pack(less)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := Manifest(p, zipped, nil); err != nil || again.Hash() != m.Hash() {
				t.Fatalf("another manifest of the reduced document: %v", err)
			}
		}
		tools.Describe(p, m)
		for i := range m.Tools {
			q := m.Tools[i].Request
			if m.Tools[i].Unusable != "" {
				continue
			}
			at, err := url.Parse(q.Server)
			if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
				t.Fatalf("the server %q: %v", q.Server, err)
			}
			args := map[string]any{}
			for _, p := range q.Params {
				args[p.Arg] = "v/../x"
			}
			text, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			if r, err := NewRequest(context.Background(), q, text, nil); err == nil && r.URL.Host != at.Host {
				t.Fatalf("%s goes to %s", q.Server, r.URL)
			}
		}
	})
}

// No value moves a request out of the place that its template has.
func FuzzRequest(f *testing.F) {
	f.Add(`{"p":"a/b","q":["x","y&z"],"h":"v","c":"w"}`, "simple", "form")
	f.Add(`{"p":{"a":"..","b":1},"q":{"a":{"b":[1]}},"h":"a\r\nb"}`, "matrix", "deepObject")
	f.Add(`{"p":["..",".."],"q":null}`, "label", "pipeDelimited")
	f.Fuzz(func(t *testing.T, args, path, query string) {
		q := &tools.Request{Method: http.MethodGet, Server: "https://a.example/v1", Path: "/x/{p}/y", Params: []tools.Param{
			{Arg: "p", Name: "p", In: "path", Style: path, Explode: len(args)%2 == 0}, {Arg: "q", Name: "q", In: "query", Style: query, Explode: len(args)%3 == 0, Reserved: len(args)%5 == 0},
			{Arg: "h", Name: "X-H", In: "header", Style: "simple"}, {Arg: "c", Name: "c", In: "cookie", Style: "form"},
		}}
		r, err := NewRequest(context.Background(), q, json.RawMessage(args), nil)
		if err != nil {
			return
		}
		at := r.URL.EscapedPath()
		plain, err := url.PathUnescape(at)
		if err != nil || r.URL.Host != "a.example" || r.URL.Fragment != "" || strings.Count(at, "/") != 4 || !strings.HasPrefix(at, "/v1/x/") || !strings.HasSuffix(at, "/y") {
			t.Fatalf("%s: %s %v", args, r.URL, err)
		}
		for part := range strings.FieldsFuncSeq(plain, func(c rune) bool { return c == '/' || c == '\\' }) {
			if part == ".." || part == "." {
				t.Fatalf("%s: %s", args, r.URL)
			}
		}
		for _, values := range r.Header {
			for _, v := range values {
				if strings.ContainsAny(v, "\r\n\x00") {
					t.Fatalf("%s: %q", args, v)
				}
			}
		}
	})
}
