package traffic

import (
	"strings"
	"testing"
	"time"
)

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		rule   Rule
		method string
		url    string
		want   bool
	}{
		{Rule{URL: "*"}, "GET", "https://a.example/", true},
		{Rule{URL: "https://a.example/*"}, "GET", "https://a.example/b?c=d", true},
		{Rule{URL: "https://a.example/*"}, "GET", "https://a.example.evil/b", false},
		{Rule{URL: "https://a.example/*"}, "GET", "https://a.example:8443/b", false},
		{Rule{URL: "https://a.example/*"}, "GET", "https://x@a.example/b", false},
		{Rule{URL: "https://A.example/*"}, "GET", "https://a.example/b", false}, // addresses come as Chrome spells them
		{Rule{URL: "*/api/*.json"}, "GET", "https://a.example/api/x/y.json#part", true},
		{Rule{URL: "*/api/*.json"}, "GET", "https://a.example/api/x/y.jsonp", false},
		{Rule{URL: "*", Method: "post"}, "GET", "https://a.example/", false},
		{Rule{URL: "*?q=1"}, "GET", "https://a.example/?q=1", true},
		{Rule{URL: "*?q=1"}, "GET", "https://a.example/xq=1", false},
		{Rule{URL: strings.Repeat("*a", 50) + "b"}, "GET", strings.Repeat("a", 5000), false},
	} {
		if got := c.rule.Matches(c.method, c.url); got != c.want {
			t.Errorf("%+v of %s %.60s: %v", c.rule, c.method, c.url, got)
		}
	}
}

func TestCheck(t *testing.T) {
	head := map[string]string{"X-Test": "1"}
	for _, c := range []struct {
		rule Rule
		ok   bool
	}{
		{Rule{Kind: Headers, URL: "https://a.example/*", Header: head}, true},
		{Rule{Kind: Headers, URL: "https://*.example/*", Header: head}, false},
		{Rule{Kind: Headers, URL: "*", Header: head}, false},
		{Rule{Kind: Headers, URL: "https://a.example/*"}, false},
		{Rule{Kind: Headers, URL: "https://a.example/*", Header: map[string]string{"Host": "x"}}, false},
		{Rule{Kind: Mock, URL: "*", Header: map[string]string{"X": "a\r\nb: c"}}, false},
		{Rule{Kind: Delay, URL: "*"}, false},
		{Rule{Kind: Block, URL: "*"}, true},
	} {
		if err := c.rule.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
}

// A recording that was written plays as it was recorded.
func TestRecordingsPlay(t *testing.T) {
	text, err := HAR("1", []Exchange{
		{Began: time.Now(), Method: "GET", URL: "https://a.example/api?x=1", Status: 200, ContentType: "application/json", Body: []byte(`{"a":1}`), HasBody: true, Text: true,
			ResponseHeaders: map[string]string{"Access-Control-Allow-Origin": "*", "Set-Cookie": "(hidden)"}},
		{Began: time.Now(), Method: "GET", URL: "https://a.example/dot.png", Status: 200, ContentType: "image/png", Body: []byte{0xff, 0}, HasBody: true},
		{Began: time.Now(), Method: "GET", URL: "https://a.example/gone", Failure: "cancelled"},
		{Began: time.Now(), Method: "GET", URL: "data:text/plain,x", Status: 200},
	})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Replay(text)
	if err != nil || len(rules) != 2 {
		t.Fatalf("%v %+v", err, rules)
	}
	if r := rules[0]; !r.Matches("GET", "https://a.example/api?x=1") || string(r.Body) != `{"a":1}` || r.Header["Access-Control-Allow-Origin"] != "*" || len(r.Header) != 1 {
		t.Errorf("%+v", r)
	}
	if string(rules[1].Body) != "\xff\x00" {
		t.Errorf("%q", rules[1].Body)
	}
	for _, bad := range []string{"", "{}", "[]", `{"log":{"version":"1.2","entries":[]}}`, `{"log":{"version":"1.2","entries":[{"request":{"method":"GET","url":"https://a.example/"},"response":{"status":200,"content":{"text":"!","encoding":"base64"}}}]}}`} {
		if rules, err := Replay([]byte(bad)); err == nil {
			t.Errorf("%s plays %+v", bad, rules)
		}
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte(`{"log":{"version":"1.2","entries":[{"request":{"method":"GET","url":"https://a.example/"},"response":{"status":200,"content":{"text":"x"}}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := Replay(text)
		if err != nil && rules != nil {
			t.Error("rules and an error")
		}
		for _, r := range rules {
			if r.Check() != nil || r.Kind != Mock || len(r.Body) > maxEntryBody {
				t.Errorf("%+v", r)
			}
		}
	})
}
