package ready

import (
	"testing"
	"time"

	"github.com/handrail-dev/handrail/capabilities/browser/record"
)

// The rule, to the millisecond.
func TestWhenAPageIsReady(t *testing.T) {
	const page, site = "http://a.example/x", "http://api.a.example/y"
	zero := time.Unix(1000, 0)
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	open := func(kind string, began int) record.Transfer {
		return record.Transfer{Seq: 1, Kind: kind, URL: site, Began: at(began)}
	}
	ended := func(q record.Transfer, ms int) record.Transfer { q.Ended = at(ms); return q }
	parsed := Progress{Committed: zero, Parsed: at(50), Drawn: at(80)}
	loaded := Progress{Committed: zero, Parsed: at(50), Drawn: at(80), Loaded: at(100), Asked: 1}
	streams := Progress{Committed: zero, Shown: at(100)}
	for name, tc := range map[string]struct {
		p    Progress
		own  []record.Transfer
		now  int
		want State
	}{
		"nothing yet":                          {Progress{Committed: zero}, nil, 4000, State{Left: time.Second}},
		"nothing for 5 s":                      {Progress{Committed: zero}, nil, 5000, State{Ready: true, Capped: true}},
		"nothing is committed":                 {Progress{}, nil, 9000, State{}},
		"load":                                 {loaded, nil, 100, State{Ready: true}},
		"load, an image is open":               {loaded, []record.Transfer{open("image", 10)}, 100, State{Ready: true}},
		"load, a fetch is open":                {loaded, []record.Transfer{open("fetch", 10)}, 150, State{Left: 250 * time.Millisecond}},
		"load, a fetch is open too long":       {loaded, []record.Transfer{open("fetch", 10)}, 400, State{Ready: true}},
		"load, a fetch gets old":               {Progress{Committed: zero, Loaded: at(900), Asked: 1}, []record.Transfer{open("xhr", 10)}, 950, State{Left: 60 * time.Millisecond}},
		"load, a long poll":                    {Progress{Committed: zero, Loaded: at(1100), Asked: 1}, []record.Transfer{open("fetch", 10)}, 1100, State{Ready: true}},
		"load, a fetch that came after it":     {loaded, []record.Transfer{{Seq: 2, Kind: "fetch", URL: site, Began: at(101)}}, 110, State{Ready: true}},
		"load, another site's fetch":           {loaded, []record.Transfer{{Seq: 1, Kind: "fetch", URL: "http://b.example/", Began: at(10)}}, 110, State{Ready: true}},
		"load, a fetch that streams":           {loaded, []record.Transfer{{Seq: 1, Kind: "fetch", URL: site, Began: at(10), Stream: true}}, 110, State{Ready: true}},
		"load, a fetch that ended":             {loaded, []record.Transfer{ended(open("fetch", 10), 200)}, 200, State{Ready: true, Drawn: true, Left: 200 * time.Millisecond}},
		"load, a fetch that ended before":      {loaded, []record.Transfer{ended(open("fetch", 10), 90)}, 100, State{Ready: true}},
		"parsed, quiet from the start":         {parsed, nil, 100, State{Left: 50 * time.Millisecond}},
		"parsed, quiet for 150 ms":             {parsed, nil, 150, State{Ready: true}},
		"parsed, not drawn":                    {Progress{Committed: zero, Parsed: at(50)}, nil, 250, State{Left: 4800 * time.Millisecond}},
		"parsed, a script is open":             {parsed, []record.Transfer{open("script", 10)}, 2050, State{Left: 3 * time.Second}},
		"parsed, a script ended":               {parsed, []record.Transfer{ended(open("script", 10), 300)}, 400, State{Left: 50 * time.Millisecond}},
		"parsed, a script that began late":     {parsed, []record.Transfer{open("script", 1000)}, 1001, State{Ready: true}},
		"parsed, a frame is open":              {parsed, []record.Transfer{open("document", 999)}, 1050, State{Left: 4 * time.Second}},
		"parsed, the document itself":          {parsed, []record.Transfer{{Seq: 1, Kind: "document", URL: page, Main: true, Began: at(-50)}}, 150, State{Ready: true}},
		"parsed, a fetch is open":              {parsed, []record.Transfer{open("fetch", 10)}, 500, State{Left: 510 * time.Millisecond}},
		"parsed, a fetch is older than 1 s":    {parsed, []record.Transfer{open("fetch", 10)}, 1010, State{Ready: true}},
		"parsed, one ended after more":         {parsed, []record.Transfer{ended(open("fetch", 10), 1500)}, 1510, State{Ready: true}},
		"parsed, an image, a font, a beacon":   {parsed, []record.Transfer{open("image", 10), open("font", 10), open("other", 10), open("media", 10)}, 150, State{Ready: true}},
		"parsed, 5 s ago":                      {parsed, []record.Transfer{open("script", 10)}, 5050, State{Ready: true, Capped: true}},
		"goes on getting elements":             {streams, nil, 1100, State{Left: 4 * time.Second}},
		"goes on getting elements for 5 s":     {streams, nil, 5100, State{Ready: true, Capped: true}},
		"shows something and counts as parsed": {Progress{Committed: zero, Shown: at(100), Parsed: at(350), Drawn: at(350)}, nil, 350, State{Ready: true}},
	} {
		if got := tc.p.Judge(at(tc.now), page, tc.own); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestSameSite(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"http://a.example/", "https://api.a.example:8080/x"}: true,
		{"http://a.example/", "http://b.example/"}:            false,
		{"http://www.a.co.uk/", "http://api.a.co.uk/"}:        true,
		{"http://a.co.uk/", "http://b.co.uk/"}:                false,
		{"http://127.0.0.1:1/", "http://127.0.0.1:2/"}:        true,
		{"http://127.0.0.1/", "http://126.0.0.1/"}:            false,
		{"http://localhost:1/", "http://localhost/"}:          true,
		{"about:blank", "about:blank"}:                        false,
	} {
		if got := sameSite(pair[0], pair[1]); got != want {
			t.Errorf("%v: %v", pair, got)
		}
	}
}
